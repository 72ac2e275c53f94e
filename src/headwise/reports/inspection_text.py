"""What an inspection returns, as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headwise.reports.formatting import columns
from headwise.reports.heat_map import readable
from headwise.reports.tree_drawing import tree_text
from headwise.text.trees import parse_tree

if TYPE_CHECKING:
    from headwise.inspection.attention import Attention, AttentionMap
    from headwise.inspection.attribution import Attribution
    from headwise.inspection.beam_tree import BeamTree
    from headwise.inspection.comparison import Comparison, FoundOutput
    from headwise.inspection.head_ranking import HeadRanking, HeadsLoss
    from headwise.inspection.head_statistics import HeadStatistics
    from headwise.inspection.logit_lens import LogitLens
    from headwise.inspection.output import Output
    from headwise.inspection.patching import Patching
    from headwise.inspection.word_steps import WordSteps

TINY = 1e-38
"""Less than any weight; a weight of 0 has no logarithm."""

MAX_OUTPUTS = 10
"""Outputs that are shown of a comparison; a classifier has one for each label."""

STRONGEST = 3
"""Positions that are named of each row of weights."""


def attention_text(found: Attention) -> list[str]:
    """Return a line for each head; of one head alone, a line for each position."""
    if len(found.maps) == 1:
        (only,) = found.maps
        rows, names = found.labels(only.head)
        return columns(
            [
                ("position", "attends to"),
                *(
                    (readable(piece), _strongest(weights, names))
                    for piece, weights in zip(rows, only.weights.tolist(), strict=True)
                ),
            ]
        )
    return columns(
        [
            ("head", "entropy", "largest weight"),
            *(
                (str(x.head), f"{_entropy(x):.2f}", _largest(found, x))
                for x in found.maps
            ),
        ]
    )


def _entropy(found: AttentionMap) -> float:
    """Return the mean entropy of the rows, in nats."""
    weights = found.weights
    return float(-(weights * weights.clamp(min=TINY).log()).sum(dim=1).mean())


def _largest(found: Attention, of_head: AttentionMap) -> str:
    rows, names = found.labels(of_head.head)
    row, column = divmod(int(of_head.weights.argmax()), len(names))
    weight = float(of_head.weights[row, column])
    return f"{readable(rows[row])} → {readable(names[column])} {weight:.2f}"


def _strongest(weights: Sequence[float], names: Sequence[str]) -> str:
    best = sorted(range(len(weights)), key=lambda each: -weights[each])[:STRONGEST]
    return "  ".join(f"{readable(names[x])} {weights[x]:.2f}" for x in best)


def output_text(found: Output) -> list[str]:
    """Return a line for each token, with what else might have stood there.

    A number stands alone; above the tokens of a parser's output is its tree.
    """
    text = _one_line(found.text)
    if found.log_probability is None:
        return [text]
    lines = [f"{text}  (ln p {found.log_probability:.3f})", ""]
    if found.tree is not None:
        lines += [*tree_text(parse_tree(found.tree)).split("\n"), ""]
    about = any(each.source_position is not None for each in found.positions)
    rows = [(*(("of",) if about else ()), "token", "p", "rank", "alternatives")]
    for each in found.positions:
        others = [x for x in each.alternatives if x.token != each.token]
        where = each.source_position
        rows.append(
            (
                *(() if where is None else (readable(found.source[where]),)),
                readable(each.piece),
                f"{math.exp(each.log_probability):.3f}",
                str(each.rank),
                "  ".join(f"{readable(x.piece)} {x.probability:.2g}" for x in others),
            )
        )
    return [*lines, *columns(rows)]


def _one_line(text: str) -> str:
    """Return a text with its line breaks shown."""
    return text.replace("\n", "⏎")


def beam_text(tree: BeamTree) -> list[str]:
    """Return the beam after each step, what was dropped, and the results."""
    lines = []
    for step in range(1, tree.nodes[-1].step + 1):
        of_step = [node for node in tree.nodes if node.step == step]
        parts = []
        for node in of_step:
            mark = {"kept": "", "stopped": "|", "ended": "*", "cut off": "/"}
            piece = f"{mark.get(node.status, '-')}{readable(node.piece)}"
            number = node.total if node.score is None else node.score
            parts.append(f"{piece} {number:.2f}")
        lines.append(f"{step:3}  " + "  ".join(parts))
    lines += ["", "* completed  / cut off  - dropped  | in the beam at the end"]
    lines.append(f"ended by {tree.ended_by}")
    for place, result in enumerate(tree.results, 1):
        lines.append(f"{place}. {result.score:.4f}  {_one_line(result.text)}")
    return lines


def word_text(found: WordSteps) -> list[str]:
    """Return the scores and weights of one word; JSON has all vectors."""
    rows = [("attends to", "q·k", "/√d_k", "weight")]
    for piece, score, scaled, weight, may_attend in zip(
        found.attended,
        found.scores.tolist(),
        found.scaled_scores.tolist(),
        found.weights.tolist(),
        found.mask,
        strict=True,
    ):
        numbers = (f"{score:.3f}", f"{scaled:.3f}", f"{weight:.4f}")
        rows.append(
            (readable(piece), *(numbers if may_attend else ("masked", "masked", "0")))
        )
    length = float(found.head_output.norm())
    title = f"{found.head} of {readable(found.piece)}, position {found.position}"
    steps = [
        f"{each.sublayer}: |x| {float(each.x.norm()):.2f}, "
        f"|output| {float(each.output.norm()):.2f}, "
        f"|x + output| {float(each.sum.norm()):.2f}, "
        f"|result| {float(each.result.norm()):.2f}"
        for each in found.sublayers
    ]
    return [title, "", *columns(rows), "", f"|sum of p·v| {length:.3f}", *steps]


def attribution_text(found: Attribution) -> list[str]:
    """Return what each output token owes most to, by leaving tokens out."""
    unit = f", {found.unit}" if found.unit else ""
    rows = [("token", f"leave one out{unit}", "gradient x input")]
    for position, lost, gradient in zip(
        found.positions,
        found.leave_one_out.tolist(),
        found.gradient_input.tolist(),
        strict=True,
    ):
        rows.append(
            (
                readable(found.target[position]),
                _strongest(lost, found.source),
                _strongest(gradient, found.source),
            )
        )
    return columns(rows)


def lens_text(found: LogitLens) -> list[str]:
    """Return the most probable token after each layer, a line for each position."""
    names = ["input" if x.layer is None else f"layer {x.layer}" for x in found.layers]
    rows = [("token", *names)]
    best_of_layers = found.best()
    for position, piece in enumerate(found.target):
        best = [row[position] for row in best_of_layers]
        rows.append(
            (
                readable(piece),
                *(f"{readable(x.piece)} {x.probability:.2f}" for x in best),
            )
        )
    return columns(rows)


def patch_text(found: Patching) -> list[str]:
    """Return the heads and blocks that carry most of the difference."""
    first, second = map(readable, found.answers)
    of_encoder, of_decoder = found.source, found.decoder_input
    lines = [
        f"ln p({first}) - ln p({second}): {found.source_difference:.2f} of the text, "
        f"{found.donor_difference:.2f} of the donor",
        "",
    ]
    rows = [("patched", "position", "carries")]
    for head, position, share in found.best(8):
        pieces = of_encoder if head.kind == "encoder" else of_decoder
        label = f"{position} {readable(pieces[position])}"
        rows.append((str(head), label, f"{100 * share:.1f}%"))
    for each in found.layers:
        position = int(each.carried.argmax())
        pieces = of_encoder if each.stack == "encoder" else of_decoder
        label = f"{position} {readable(pieces[position])}"
        share = float(each.carried[position])
        rows.append((f"block {each.stack}.{each.layer}", label, f"{100 * share:.1f}%"))
    return [*lines, *columns(rows)]


def comparison_text(found: Comparison) -> list[str]:
    """Return the outputs before and after interventions."""
    lines = [f"{', '.join(found.interventions)}:"]
    for title, outputs in (("before", found.before), ("after", found.after)):
        lines += [f"{title:7} {_found(each)}" for each in outputs[:MAX_OUTPUTS]]
        if len(outputs) > MAX_OUTPUTS:
            lines.append(f"{title:7} and {len(outputs) - MAX_OUTPUTS:,} more")
    if found.before_changed is None or found.before[0].log_probability is None:
        return lines
    before = f"{found.before[0].log_probability:.3f}"
    changed = f"{found.before_changed:.3f}"
    if before != changed:  # a prefix alone leaves the model as it is
        lines.append(f"ln p of the output before: {before}, and {changed} after")
    return lines


def _found(output: FoundOutput) -> str:
    text = _one_line(output.text)
    if output.log_probability is None:
        return text
    log_p = f"ln p {output.log_probability:.3f}"
    if output.score is None or output.score == output.log_probability:
        return f"{text}  ({log_p})"
    return f"{text}  (score {output.score:.4f}, {log_p})"


def ranking_text(found: HeadRanking, bleu: Sequence[float | None]) -> list[str]:
    """Return the heads, the one that references lose most without first.

    ``bleu`` has the BLEU without each of the first heads, and before that of all.
    """
    with_bleu = bool(bleu)
    header = ("head", "loss", "95% interval", *(("BLEU",) if with_bleu else ()))
    rows: list[tuple[str, ...]] = [header]
    if with_bleu:
        rows.append(("(none off)", "0", "", _bleu(bleu[0])))
    for place, each in enumerate(found.heads, 1):
        row: tuple[str, ...] = (
            ", ".join(map(str, each.heads)),
            f"{each.loss:.4f}",
            interval(each),
        )
        if with_bleu:
            row = (*row, _bleu(bleu[place] if place < len(bleu) else None))
        rows.append(row)
    count = found.heads[0].sentences
    return [
        *columns(rows),
        "",
        "loss: what ln p of a reference loses without the head, in nats, mean over "
        f"{count:,} {'sentence' if count == 1 else 'sentences'}",
    ]


def interval(loss: HeadsLoss) -> str:
    """Return the interval as text; a dash of one sentence, which has none."""
    if loss.low is None or loss.high is None:
        return "-"
    return f"{loss.low:.4f} to {loss.high:.4f}"


def _bleu(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def statistics_text(found: Sequence[HeadStatistics]) -> list[str]:
    """Return a line for each head."""
    return columns(list(_statistics_rows(found)))


def _statistics_rows(found: Sequence[HeadStatistics]) -> Iterator[tuple[str, ...]]:
    yield (
        *("head", "entropy", "distance", "previous", "same", "next", "rarest"),
        "largest weight at",
    )
    for each in found:
        share = f"{each.offset:+d} in {100 * each.offset_share:.0f}%"
        shares = (each.previous, each.same, each.next, each.rarest)
        yield (
            str(each.head),
            f"{each.entropy:.2f}",
            f"{each.distance:.1f}",
            *(f"{100 * x:.0f}%" for x in shares),
            f"{share} (positional)" if each.positional else share,
        )
