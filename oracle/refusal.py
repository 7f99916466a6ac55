"""The one error that tileproof raises for a request outside the legal or the modelled range."""


class Refusal(Exception):
    """Says which value was refused, which limit it broke, and what to do instead.

    Args:
        message: the value and the limit, one line.
        hint: the remedy, one line; empty where there is none.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:  # keyword-only arguments do not survive the default pickling
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(cls: type[Refusal], message: str, hint: str) -> Refusal:
    return cls(message, hint=hint)
