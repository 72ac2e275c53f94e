"""Greedy search: the most probable token at each step.

Letters used for sizes: B rows still in the batch, T steps of one call, L tokens so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from headwise.decoding.argument_checks import check_ids, check_lengths
from headwise.decoding.greedy_batch import COMPACT_AT, GreedyBatch
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import GreedyDecoder, IncrementalDecoder, S
from headwise.decoding.length_penalty import LengthPenalty
from headwise.decoding.rule_context import Rule
from headwise.decoding.topk import topk_step_of, topk_tokens_with_rules


def greedy_search(
    decoder: IncrementalDecoder[S],
    state: S,
    *,
    num_rows: int,
    start: int,
    end: int,
    max_lengths: Sequence[int],
    forbidden: tuple[int, ...] = (),
    penalty: LengthPenalty = float,
    reward: float = 0.0,
    rules: Sequence[Rule] = (),
    token_scores: bool = False,
    check_stop: Callable[[], None] = lambda: None,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """Return one hypothesis for each row of ``state``.

    ``max_lengths`` counts END. ``penalty`` and ``reward`` change the score only; by
    default that is the mean ln p. ``token_scores`` asks for the ln p of each token.
    ``check_stop`` is called before each step, and raises to cancel the search.
    """
    check_lengths(max_lengths, num_rows)
    check_ids(end, forbidden)
    batch = GreedyBatch(
        num_rows, end, max_lengths, records_log_p=token_scores or bool(rules)
    )
    greedy_decoder = decoder if isinstance(decoder, GreedyDecoder) else None
    step_topk = topk_step_of(decoder)
    tokens = torch.full((num_rows,), start, device=device)

    while batch.rows:
        check_stop()
        compact_at = 1 if rules else math.ceil(len(batch.rows) * COMPACT_AT)
        if rules:
            logits, state = decoder.step(tokens, state)
            best = topk_tokens_with_rules(
                logits,
                1,
                rules=rules,
                generated=torch.tensor(
                    [batch.outputs[row] for row in batch.rows],
                    dtype=torch.long,
                    device=device,
                ),
                sentences=torch.tensor(batch.rows, device=device),
                forbidden=forbidden,
            )
            scores, ids, log_p = (each.T for each in best)
        elif greedy_decoder is not None:
            log_p, ids, state = greedy_decoder.decode_greedily(
                tokens,
                state,
                max_steps=batch.max_steps,
                end=end,
                stop_at_finished=max(1, compact_at - batch.num_finished),
                forbidden=forbidden,
            )
            scores = log_p
        else:
            log_p, ids, state = step_topk(tokens, state, 1, forbidden)
            scores, ids, log_p = log_p.T, ids.T, log_p.T
        of_steps = scores.cpu().numpy(), ids.tolist(), log_p.tolist()
        for step in zip(*of_steps, strict=True):
            unfinished = batch.append(*step)

        tokens, kept = (
            ids[-1],
            torch.tensor(unfinished, dtype=torch.long, device=device),
        )
        num_finished = batch.num_finished
        if num_finished and (num_finished >= compact_at or not unfinished):
            batch.compact(unfinished)
            if unfinished:
                tokens, state = tokens[kept], state.index_select(kept)
        elif num_finished:  # finished rows stay until the batch is compacted
            tokens = torch.full_like(tokens, end).index_copy(0, kept, tokens[kept])
    return batch.hypotheses(penalty, reward, token_scores=token_scores)
