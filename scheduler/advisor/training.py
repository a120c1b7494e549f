"""Which loops train: where a step is made, over functions of the package that a loop calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from weakref import WeakKeyDictionary

from scheduler.advisor.package import Package
from scheduler.advisor.syntax import Around, Call, Scope

OPTIMIZERS = ("optim", "opt", "scaler", "engine", "solver")
FRAMEWORK_STEPS = frozenset({"training_step", "train_step"})
MAX_ROUNDS = 8
MAX_NAMESAKES = 8
MAX_TEST_NODES = 200
RARE = ("every", "interval", "freq", "should", "last", "final", "elapsed", "period", "best", "is_log", "save_", "log_")
CLOCKS = frozenset({"time", "monotonic", "perf_counter", "now"})


@dataclass(eq=False)
class Training:
    """What of a package runs in its training.

    Attributes:
        hot_loops: the loops whose every turn makes a step.
        steppers: the functions whose every call makes a step.
        hot_scopes: the functions that run in every step: these, and what is called there.
        loops: those that train somewhere inside, the epochs as well.
        scopes: the functions that are called inside such loops.
        trainers: the functions that hold such loops, or call one that does.
        depth: in how many loops a function is called, at most.
    """

    hot_loops: set[int] = field(default_factory=set)
    steppers: set[int] = field(default_factory=set)
    hot_scopes: set[int] = field(default_factory=set)
    loops: set[int] = field(default_factory=set)
    scopes: set[int] = field(default_factory=set)
    trainers: set[int] = field(default_factory=set)
    depth: dict[int, int] = field(default_factory=dict)

    @property
    def is_any(self) -> bool:
        """Something trains."""
        return bool(self.hot_loops or self.hot_scopes)

    @property
    def size(self) -> int:
        """How much is known."""
        sets = (self.hot_loops, self.hot_scopes, self.loops, self.scopes, self.trainers, self.steppers)
        return sum(map(len, sets)) + sum(self.depth.values())

    def is_hot(self, around: Around) -> bool:
        """It runs in every step."""
        if around.loops:
            return id(around.loops[-1]) in self.hot_loops or (
                around.scope is not None and id(around.scope) in self.hot_scopes
            )
        return around.scope is not None and id(around.scope) in self.hot_scopes

    def is_inside(self, around: Around) -> bool:
        """It runs while the training goes on, be it once in an epoch."""
        if any(id(loop) in self.loops for loop in around.loops):
            return True
        return around.scope is not None and (id(around.scope) in self.scopes or id(around.scope) in self.hot_scopes)

    def loops_around(self, around: Around) -> int:
        """In how many loops it runs, those of callers included."""
        return len(around.loops) + (self.depth.get(id(around.scope), 0) if around.scope is not None else 0)


_KNOWN: WeakKeyDictionary[Package, Training] = WeakKeyDictionary()


def of(package: Package) -> Training:
    """The training of a package; found once."""
    if package not in _KNOWN:
        _KNOWN[package] = _find(package)
    return _KNOWN[package]


def steps(package: Package) -> Iterator[Call]:
    """Where a step is made: `.backward()`; without any, `.step()` of what is called like an optimizer."""
    backward = list(package.calls("backward"))
    if backward:
        yield from backward
        return
    for call in package.calls("step", "apply_gradients", "minimize"):
        name = call.name.rpartition(".")[0].rpartition(".")[2].lower()
        if call.last != "step" or any(each in name for each in OPTIMIZERS):
            yield call


def _find(package: Package) -> Training:
    training = Training()
    scopes = {id(scope): (scope, around) for module in package.modules for scope, around in module.functions}
    named: dict[str, list[Scope]] = {}
    for scope, _ in scopes.values():
        named.setdefault(scope.name, []).append(scope)
        if scope.name in FRAMEWORK_STEPS and scopes[id(scope)][1].class_name:
            training.steppers.add(id(scope))
            training.hot_scopes.add(id(scope))
    for call in steps(package):
        _heat(training, call.around)
    inside = [
        (call, scope)
        for module in package.modules
        for call in module.calls
        if call.receiver is None or call.name.count(".") == 1
        for scope in named.get(call.last, ())[:MAX_NAMESAKES]
    ]
    for _ in range(MAX_ROUNDS):
        before = training.size
        for call, scope in inside:
            _follow(training, call, scope)
        if training.size == before:
            break
    return training


def _heat(training: Training, around: Around) -> None:
    if around.loops:
        training.hot_loops.add(id(around.loops[-1]))
        _reaches(training, around)
    elif around.scope is not None:
        training.steppers.add(id(around.scope))
        training.hot_scopes.add(id(around.scope))


def _reaches(training: Training, around: Around) -> None:
    training.loops.update(map(id, around.loops))
    if around.scope is not None:
        training.trainers.add(id(around.scope))


def _follow(training: Training, call: Call, scope: Scope) -> None:
    """What a call of a function of the package means for where it stands, and for the function."""
    around = call.around
    if scope is around.scope:
        return
    if id(scope) in training.steppers:
        _heat(training, around)
    if id(scope) in training.trainers:
        _reaches(training, around)
    if training.is_inside(around):
        training.scopes.add(id(scope))
    if training.is_hot(around) and not is_rare(around):
        training.hot_scopes.add(id(scope))
    deeper = min(training.loops_around(around), MAX_ROUNDS)
    training.depth[id(scope)] = max(training.depth.get(id(scope), 0), deeper)


def is_rare(around: Around) -> bool:
    """An `if` lets it happen now and then only: every k-th time, after a while, or when something is best."""
    return any(_is_rare(test) for test in around.tests)


def _is_rare(test: ast.expr) -> bool:
    for node in islice(ast.walk(test), MAX_TEST_NODES):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return True
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in CLOCKS or any(each in name.lower() for each in RARE):
            return True
    return False
