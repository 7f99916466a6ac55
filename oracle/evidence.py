"""How far a rule of this project is known: a value that stands beside every fact taken from outside."""

from enum import Enum


class Evidence(Enum):
    """What a rule rests on; the value is the word that tables and reports print."""

    #: A vendor's manual, a standard, or the public source of the project that the rule describes.
    DOCUMENTED = "documented"
    #: A recording on hardware, named beside the rule.
    MEASURED = "measured on hardware"
    #: Our reading of indirect facts; nobody states it and no recording shows it.
    INFERRED = "inferred"
