"""What foldwise raises. Every error is a FoldwiseError and also the built-in kind that Python users expect."""

from collections.abc import Sequence
from typing import Any


class FoldwiseError(Exception):
    """Any refusal of foldwise."""


class AxisError(FoldwiseError, ValueError, IndexError):
    """An axis out of range, repeated, or missing."""


class DtypeError(FoldwiseError, TypeError):
    """A dtype that the operation does not take or cannot give."""


class ShapeError(FoldwiseError, ValueError):
    """Arrays whose shapes do not go together."""


class OptionError(FoldwiseError, ValueError):
    """An option with a value, or in a combination, that means nothing."""


class ArgumentError(FoldwiseError, TypeError):
    """An argument of the wrong Python type."""


class OverflowedError(FoldwiseError, OverflowError):
    """An integer result that its dtype cannot hold, where overflow="raise" was asked for."""


class StateError(FoldwiseError, ValueError):
    """An accumulator's state that does not go with another's, cannot give what is asked, or cannot be read."""


class ModelError(FoldwiseError, ValueError):
    """A model that is not what its format asks for, or an input or output that it does not have."""


class ConversionError(ModelError):
    """Nodes that cannot be converted without changing what the model gives. `findings` has them all."""

    def __init__(self, message: str, findings: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


class LimitError(ModelError):
    """A model that asks for more than its budget allows."""


class EngineError(FoldwiseError, NotImplementedError):
    """A node that foldwise does not run, and no other engine that would."""


class SourceError(FoldwiseError, ValueError):
    """Data outside memory that are not what they should be, or a place that takes none."""


class BudgetError(OptionError):
    """A memory budget that is too small for what was asked. `needed` is the smallest that works, in bytes."""

    def __init__(self, message: str, needed: int = 0) -> None:
        super().__init__(message)
        self.needed = needed


class UnknownOperatorError(FoldwiseError, LookupError):
    """An operator, version, opset or dialect that does not exist."""


class FoldwiseWarning(UserWarning):
    """Something that a specification forbids and runtimes accept, let pass."""
