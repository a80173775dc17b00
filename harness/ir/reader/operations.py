"""What the reader knows of each operation: how its result types follow from the types that its text states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvproof.harness.ir.reader.form import Type, Value

Rule = Callable[[Sequence[Value], Sequence[Type], Sequence[Type]], tuple[Type, ...]]
"""From (operands, types before an arrow or "to", types after it) to result types."""


def _none(_o: Sequence[Value], _i: Sequence[Type], _t: Sequence[Type]) -> tuple[Type, ...]:
    return ()


def _same(_o: Sequence[Value], stated: Sequence[Type], _t: Sequence[Type]) -> tuple[Type, ...]:
    return (stated[-1],)


def _first(_o: Sequence[Value], stated: Sequence[Type], _t: Sequence[Type]) -> tuple[Type, ...]:
    return (stated[0],)


def _after(_o: Sequence[Value], _i: Sequence[Type], after: Sequence[Type]) -> tuple[Type, ...]:
    return tuple(after)


def _compared(_o: Sequence[Value], stated: Sequence[Type], _t: Sequence[Type]) -> tuple[Type, ...]:
    return (stated[0].with_element("i1"),)


def _loaded(_o: Sequence[Value], stated: Sequence[Type], _t: Sequence[Type]) -> tuple[Type, ...]:
    return (stated[0].with_element(stated[0].pointee),)


def _split(_o: Sequence[Value], _i: Sequence[Type], after: Sequence[Type]) -> tuple[Type, ...]:
    return (after[0], after[0])


_SAME = (
    "arith.addi arith.subi arith.muli arith.divsi arith.divui arith.remsi arith.remui arith.ceildivsi "
    "arith.floordivsi arith.andi arith.ori arith.xori arith.shli arith.shrsi arith.shrui arith.minsi "
    "arith.minui arith.maxsi arith.maxui arith.select "
    "arith.addf arith.subf arith.mulf arith.divf arith.remf arith.negf arith.minnumf arith.maxnumf "
    "arith.minimumf arith.maximumf arith.constant ub.poison "
    "math.exp math.exp2 math.log math.log2 math.sqrt math.rsqrt math.sin math.cos math.absf math.absi math.floor "
    "math.ceil math.fma math.erf math.tanh math.round math.roundeven math.trunc "
    "tt.clampf tt.precise_sqrt tt.precise_divf tt.mulhiui tt.get_program_id tt.get_num_programs tt.make_range"
)
_TO = (
    "arith.extsi arith.extui arith.trunci arith.extf arith.truncf arith.sitofp arith.uitofp arith.fptosi "
    "arith.fptoui arith.index_cast arith.index_castui arith.bitcast "
    "tt.splat tt.unsplat tt.broadcast tt.expand_dims tt.reshape tt.trans tt.bitcast tt.int_to_ptr tt.ptr_to_int "
    "tt.fp_to_fp tt.dot tt.dot_scaled tt.join tt.cat tt.gather tt.histogram tt.call tt.extern_elementwise "
    "tt.elementwise_inline_asm tt.reduce tt.scan tt.atomic_rmw tt.atomic_cas tt.map_elementwise "
    "scf.for scf.if scf.while"
)
_NOTHING = (
    "tt.store tt.return tt.assert tt.print tt.reduce.return tt.scan.return scf.yield scf.condition cf.br "
    "cf.cond_br llvm.intr.assume gpu.barrier ttg.barrier tt.debug_barrier"
)

RESULT_TYPES: dict[str, Rule] = {
    **dict.fromkeys(_SAME.split(), _same),
    **dict.fromkeys(_TO.split(), _after),
    **dict.fromkeys(_NOTHING.split(), _none),
    "arith.cmpi": _compared,
    "arith.cmpf": _compared,
    "tt.addptr": _first,
    "tt.load": _loaded,
    "tt.split": _split,
}
"""Adding an operation is one word in one of the lists; one that is in none is kept as unknown."""


def guess_types(count: int, stated: Sequence[Type], after: Sequence[Type]) -> tuple[Type, ...]:
    """Result types of an unknown operation: those after an arrow if the text has as many, else the last stated."""
    if len(after) == count:
        return tuple(after)
    last = after[-1] if after else stated[-1] if stated else Type("unknown")
    return (last,) * count
