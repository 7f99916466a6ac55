"""All mutation operators by name."""

from collections.abc import Mapping

from tileproof.conformance.mutation.operator import Operator
from tileproof.conformance.mutation.operators_control import OPERATORS as CONTROL
from tileproof.conformance.mutation.operators_memory import OPERATORS as MEMORY
from tileproof.conformance.mutation.operators_order import OPERATORS as ORDER
from tileproof.conformance.mutation.operators_value import OPERATORS as VALUE

OPERATORS: Mapping[str, Operator] = {one.name: one for one in (*ORDER, *CONTROL, *MEMORY, *VALUE)}
