"""`fw.audit`: what other runtimes would refuse in a model, or get wrong, and the model rewritten so that they do not.

The table of what they do, and the walks over models, are imported when they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from foldwise.errors import ArgumentError, EngineError, OptionError

from .model import DEFAULT, Model, load

if TYPE_CHECKING:
    from .check import Finding
    from .limits import Limits

Level = Literal["error", "warning", "note"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")


class Fault(NamedTuple):
    """What a runtime gets wrong about a node, or about the whole model."""

    level: Level
    """error: it happens; warning: it may; note: only with NaNs, infinities or empty tensors, or it can do no harm."""
    node: str
    operator: str
    runtime: str
    title: str
    """The runtime's name in prose."""
    releases: str
    """Those that have it, in words."""
    effect: str
    surely: bool
    """Whether it happens whatever the values are."""
    what: str
    when: str
    """Which values it takes."""
    fix: str
    repair: str
    """The name of the rewriting; nothing where none is known."""
    row: str
    """The row's id in the table."""

    @property
    def where(self) -> str:
        """The node and its operator; of the whole model, that."""
        return f"{self.node} ({self.operator})" if self.node else "the model"

    @property
    def happens(self) -> str:
        """The effect, and which values it takes."""
        return f"{'' if self.surely else 'may: '}{self.effect}{f' when {self.when}' if self.when else ''}"

    def __str__(self) -> str:
        who = f"{self.title} ({self.releases})"
        return f"{self.level}: {self.where}: {who} {self.happens}. {self.what} -> {self.fix} [{self.row}]"


class Left(NamedTuple):
    """A fault that was not repaired, and why."""

    fault: Fault
    why: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """A model written anew, what that repaired, and what is left."""

    model: Model
    repaired: tuple[Fault, ...]
    left: tuple[Left, ...]

    def __str__(self) -> str:
        lines = [f"repaired: {fault.where}: {fault.row}" for fault in self.repaired]
        lines += [f"left: {fault.where}: {fault.row}: {why}" for fault, why in self.left]
        return "\n".join(lines or ["nothing to repair"])


@dataclass(frozen=True, slots=True)
class Audit:
    """What runtimes would refuse in a model or get wrong. It is true where there is anything."""

    model: Model
    findings: tuple[Fault, ...]
    versions: Mapping[str, str]
    """The release of each runtime that it was held against."""
    unread: tuple[Finding, ...] = ()
    """Nodes that are not as their operators want them, so that nothing is known of them; `check` tells more."""

    def __bool__(self) -> bool:
        return bool(self.findings)

    def at_least(self, level: Level) -> Audit:
        """The same without what is less grave."""
        if level not in LEVELS:
            raise OptionError(f"audit: level = {level!r}; accepted are {', '.join(LEVELS)}")
        grave = LEVELS[: LEVELS.index(level) + 1]
        return replace(self, findings=tuple(fault for fault in self.findings if fault.level in grave))

    def counts(self) -> dict[Level, int]:
        """How many there are of each level."""
        found = Counter(fault.level for fault in self.findings)
        return {level: found[level] for level in LEVELS}

    def data(self) -> dict[str, Any]:
        """Everything, for programs: dicts, lists and strings."""
        return {
            "versions": dict(self.versions),
            "counts": self.counts(),
            "findings": [fault._asdict() for fault in self.findings],
            "unread": [finding._asdict() for finding in self.unread],
        }

    def sarif(self, uri: str = "") -> dict[str, Any]:
        """The same as a SARIF 2.1.0 log, whose rules are the table's rows; `uri` is where the model lies."""
        from .sarif import log

        return log(self, uri or self.model.program.origin)

    def fix(self, level: Level = "warning", *, verify: bool = False) -> Repaired:
        """The model with what is at least so grave rewritten, wherever the table knows how, and what is left.

        Rewritten nodes give what the old ones give; floats that go through wider ones may differ in their last bits.
        `verify` runs both models on inputs of many kinds and compares, as `convert` does.
        """
        from .repairing import repaired

        made = repaired(self.at_least(level), level)
        if verify:
            from .verify import compare

            compare(self.model, made.model, exact=False)
        return made

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or f"{self.model.program.origin}: no faults are known"

    def __repr__(self) -> str:
        counted = ", ".join(f"{n} {level}{'s' if n > 1 else ''}" for level, n in self.counts().items() if n)
        return f"<Audit of {self.model.program.origin}: {counted or 'no faults are known'}>"


def audit(
    model: Any,
    runtimes: str | Sequence[str] | None = None,
    versions: Mapping[str, str] | Literal["installed"] | None = None,
    *,
    limits: Limits = DEFAULT,
) -> Audit:
    """What onnxruntime, OpenVINO, onnx's reference evaluator and PyTorch's export get wrong about a model.

    `model` is a Model, or anything that `load` takes. `runtimes` names some of them; `versions` their releases, as in
    {"onnxruntime": "1.26"}, or "installed" for those that are there; otherwise the newest that the table knows.
    """
    held = _releases(_chosen(runtimes), versions)
    given = model if isinstance(model, Model) else load(model, limits=limits)
    try:
        from .auditing import findings

        return Audit(given, *findings(given.program, held, given.limits))
    except ImportError as error:
        raise EngineError('audit: ONNX models need the package onnx: pip install "foldwise[onnx]"') from error


def _chosen(runtimes: str | Sequence[str] | None) -> tuple[str, ...]:
    from foldwise.runtimes import RUNTIMES

    if runtimes is None:
        return tuple(RUNTIMES)
    names = (runtimes,) if isinstance(runtimes, str) else tuple(runtimes)
    for name in names:
        if name not in RUNTIMES:
            raise OptionError(f"audit: runtime {name!r} is not known; known are {', '.join(RUNTIMES)}")
    return names


def _releases(names: tuple[str, ...], versions: Mapping[str, str] | str | None) -> dict[str, str]:
    """The release of each runtime."""
    from foldwise.runtimes import RUNTIMES
    from foldwise.runtimes.row import numbers

    if versions == "installed":
        return {name: found for name in names if (found := _installed(RUNTIMES[name].package))}
    if versions is None:
        versions = {}
    if not isinstance(versions, Mapping):
        raise ArgumentError(
            f'audit: versions = {versions!r}; accepted are "installed" and a mapping as {{"onnxruntime": "1.26"}}'
        )
    for name, version in versions.items():
        if name not in names:
            raise OptionError(f"audit: versions names {name!r}, which is not among the runtimes {', '.join(names)}")
        if not isinstance(version, str) or not numbers(version):
            raise OptionError(f"audit: {version!r} is no version of {name}; give one as {RUNTIMES[name].newest!r}")
    return {name: versions.get(name, RUNTIMES[name].newest) for name in names}


def _installed(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
