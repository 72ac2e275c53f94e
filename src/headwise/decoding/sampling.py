"""Sampling: tokens drawn from the model's distribution, which may be truncated.

Letters used for sizes in this file:

    R  rows of the batch, one an output        V  vocabulary

The random numbers of an output depend on the seed, the tokens of its source and the
index of the sample only, not on its batch or its position in a file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from headwise.decoding.argument_checks import check_ids, check_lengths, no_token_allowed
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import IncrementalDecoder, S
from headwise.decoding.length_penalty import LengthPenalty
from headwise.decoding.logits_processors import apply_rules
from headwise.decoding.rule_context import Rule, RuleContext
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.topk import log_probabilities


def keep_top_k(log_p: Tensor, k: int) -> Tensor:
    """Keep the k most probable tokens: Fan et al. (2018).

    Ties go to the lower id.
    """
    order = log_p.argsort(dim=-1, descending=True, stable=True)
    return log_p.scatter(1, order[:, k:], -math.inf)


def keep_top_p(log_p: Tensor, p: float) -> Tensor:
    """Keep the fewest tokens whose probabilities sum to p: Holtzman et al. (2020)."""
    order = log_p.argsort(dim=-1, descending=True, stable=True)
    probabilities = log_p.gather(1, order).double().exp()
    before = probabilities.cumsum(-1) - probabilities
    dropped = before >= p
    dropped[:, 0] = False
    return log_p.masked_fill(
        torch.zeros_like(dropped).scatter(1, order, dropped), -math.inf
    )


def keep_above_epsilon(log_p: Tensor, epsilon: float) -> Tensor:
    """Keep tokens with p >= epsilon, or the best alone: Hewitt et al. (2022)."""
    kept = (log_p >= math.log(epsilon)) | (log_p == log_p.amax(-1, keepdim=True))
    return log_p.masked_fill(~kept, -math.inf)


TRUNCATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "top_k": lambda log_p, k: keep_top_k(log_p, int(k)),
    "top_p": keep_top_p,
    "epsilon": keep_above_epsilon,
}
"""Every truncation under the name of its setting, in the order of application.

Each maps normalised ln p [R, V] to ln p with -inf for the tokens it removes.
"""

NO_TRUNCATION = {"top_k": 0, "top_p": 1.0, "epsilon": 0.0}


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Temperature and truncations: from scores to the distribution that is sampled."""

    temperature: float = 1.0
    truncations: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, settings: DecodingSettings) -> Sampler:
        """Return the sampler that ``settings`` describe."""
        values = {name: getattr(settings, name) for name in TRUNCATIONS}
        return cls(
            temperature=settings.temperature,
            truncations=tuple(
                (name, value)
                for name, value in values.items()
                if value != NO_TRUNCATION[name]
            ),
        )

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the probabilities [R, V] to sample from, in float64."""
        log_p = (scores.double() / self.temperature).log_softmax(-1)
        for name, value in self.truncations:
            log_p = TRUNCATIONS[name](log_p, value).log_softmax(-1)
        return log_p.exp()


def sample_rng(seed: int, source: Sequence[int], sample: int) -> Random:
    """Return the random number generator of one sample of one sentence."""
    key = f"{seed} {sample} {' '.join(map(str, source))}"
    return Random(hashlib.sha256(key.encode()).digest())


def sampling_search(
    decoder: IncrementalDecoder[S],
    state: S,
    *,
    sources: Sequence[Sequence[int]],
    start: int,
    end: int,
    max_lengths: Sequence[int],
    samples: int,
    seed: int,
    sampler: Sampler,
    penalty: LengthPenalty = float,
    reward: float = 0.0,
    forbidden: tuple[int, ...] = (),
    rules: Sequence[Rule] = (),
    token_scores: bool = False,
    check_stop: Callable[[], None] = lambda: None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Draw ``samples`` outputs for each row of ``state``; return them best first.

    An output that is drawn more than once is returned as often. ``check_stop`` is
    called before each step, and raises to cancel the search.
    """
    check_lengths(max_lengths, len(sources))
    check_ids(end, forbidden)
    sentences = [each for each in range(len(sources)) for _ in range(samples)]
    rngs = [
        sample_rng(seed, source, sample)
        for source in sources
        for sample in range(samples)
    ]
    completed: list[list[Hypothesis]] = [[] for _ in sources]
    rows = list(range(len(sentences)))  # those still in the batch
    outputs: list[list[int]] = [[] for _ in rows]
    token_log_p: list[list[float]] = [[] for _ in rows]
    totals = [0.0] * len(rows)  # of the scores, which rules may have changed
    tokens = torch.full((len(rows),), start, device=device)
    if samples > 1 and rows:
        state = state.index_select(torch.tensor(sentences, device=device))

    while rows:
        check_stop()
        logits, state = decoder.step(tokens, state)
        log_p = log_probabilities(logits)
        scores = log_p
        if rules:
            generated = torch.tensor([outputs[row] for row in rows], device=device)
            context = RuleContext(
                generated.long(),
                torch.tensor([sentences[row] for row in rows], device=device),
                log_p,
            )
            scores = apply_rules(log_p, rules, context)
        if forbidden:
            scores = scores.index_fill(
                1, torch.tensor(forbidden, device=device), -math.inf
            )
        if bool((scores.amax(-1) == -math.inf).any()):
            raise no_token_allowed()
        uniforms = [rngs[row].random() for row in rows]
        tokens = inverse_cdf(sampler.probabilities(scores), uniforms)

        unfinished = []
        for index, (row, token, own_log_p, score) in enumerate(
            zip(
                rows,
                tokens.tolist(),
                log_p.gather(1, tokens[:, None])[:, 0].tolist(),
                scores.gather(1, tokens[:, None])[:, 0].tolist(),
                strict=True,
            )
        ):
            token_log_p[row].append(own_log_p)
            totals[row] += score
            length = len(token_log_p[row])
            if token != end:
                outputs[row].append(token)
            if token != end and length < max_lengths[sentences[row]]:
                unfinished.append(index)
                continue
            completed[sentences[row]].append(
                Hypothesis(
                    tuple(outputs[row]),
                    math.fsum(token_log_p[row]),
                    totals[row] / penalty(length) + reward * length,
                    token == end,
                    tuple(token_log_p[row]) if token_scores else (),
                )
            )

        if len(unfinished) < len(rows):
            rows = [rows[index] for index in unfinished]
            kept = torch.tensor(unfinished, dtype=torch.long, device=tokens.device)
            tokens = tokens[kept]
            if rows:
                state = state.index_select(kept)
    # Ties in an order that does not depend on which hypothesis ended first.
    return [sorted(each, key=lambda h: (-h.score, h.tokens)) for each in completed]


def inverse_cdf(probabilities: Tensor, uniforms: Sequence[float]) -> Tensor:
    """Return the token [R] at which each row's CDF passes its uniform number."""
    cdf = probabilities.cumsum(-1)
    u = torch.tensor(uniforms, dtype=cdf.dtype, device=cdf.device)[:, None]
    # Rounding may leave the sum a little off 1, and u beyond the last possible token.
    tokens = torch.searchsorted(cdf, u * cdf[:, -1:], right=True)[:, 0]
    last = (probabilities > 0).to(torch.uint8).flip(-1).argmax(-1)
    return torch.minimum(tokens, probabilities.shape[1] - 1 - last)
