"""Variants give the same bits: a processor changes the speed alone.

But for AMX, and for bf16 where it has instructions of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from tests.backends.native.conftest import build_script
from tests.processes import environment

from headwise.backends.native.cpu_variants import VARIANTS, usable
from headwise.backends.native.library import NativeLibraryError, load_variant

CODE = """
import hashlib, torch
from headwise.backends.native import library
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.training import NativeTraining
from headwise.backends.pytorch.install_fused import use_backend
from headwise.consistency import Consistency
from headwise.data.doubled_batch import double_batch
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model import TransformerConfig
from headwise.model.transformer import Transformer

SIZES = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 24, "d_ff": 40}
MODELS = (
    {},
    {"norm": "pre", "activation": "gelu", "embedding_norm": True},
    {"activation": "swish", "d_model": 128, "num_heads": 2, "positions": "learned"},
    {"d_k": 7, "d_v": 5, "d_ff": 9, "attention_bias": True, "output_bias": True},
    {"positions": "rotary", "d_k": 22, "d_v": 5},
    {"attention_dropout": 0.3, "feed_forward_dropout": 0.2, "dropout": 0.1},
)
torch.manual_seed(0)
torch.set_num_threads(1)
for changes in MODELS:
    config = TransformerConfig(**{"num_heads": 3, "dropout": 0.0, **SIZES, **changes})
    model = use_backend(Transformer(config, 1100, seed=1).train(), "native")
    lengths = torch.tensor([19, 1, 7, 16, 17])
    sides = torch.randint(4, 1100, (2, int(lengths.sum())))
    source, target = (RaggedTokens.from_lengths(each, lengths) for each in sides)
    batch = Batch(source, target, torch.arange(5))
    for half in (False, True):
        found = hashlib.sha256()
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = NativeTraining().loss(model, batch, smoothing=0.1)
        loss.backward()
        for each in [loss.detach(), *(each.grad for each in model.parameters())]:
            found.update(each.numpy().tobytes())
        twice, form = double_batch(batch, 0.2), Consistency.r_drop(5.0)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = NativeTraining().two_pass_loss(
                model, twice, smoothing=0.1, consistency=form
            )
        model.zero_grad()
        loss.total.backward()
        tensors = [*(each.detach() for each in loss), *model.parameters()]
        for each in tensors[:2] + [each.grad for each in tensors[2:]]:
            found.update(each.numpy().tobytes())
        decoder = NativeDecoder(model, "bf16" if half else "float32")
        state = decoder.start(source.padded(), source.is_real)
        for column in range(3):
            scores, state = decoder.step(target.padded()[:, column], state)
            found.update(scores.numpy().tobytes())
            state = state.index_select(torch.tensor([4, 0, 0, 2, 1]))
        print(library.build().variant, changes, half, found.hexdigest())
"""
"""Prints a digest of losses, gradients and scores, for each model and precision."""


def digests(name: str) -> list[str]:
    variant = next(each for each in VARIANTS if each.name == name)
    try:
        load_variant(variant)
    except NativeLibraryError as error:
        pytest.skip(f"{name}: {error}")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment(HEADWISE_NATIVE=name),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    assert all(line.startswith(f"{name} ") for line in lines)
    return [line.removeprefix(f"{name} ") for line in lines]


@pytest.mark.parametrize("other", ["v3", "v4"])
def test_training_and_decoding_give_the_same_bits_by_v3_and_by(other):
    """By v3 once more as well: it depends on no memory that was not written."""
    found = digests("v3")

    assert len(set(found)) == 12
    assert found == digests(other)


def test_float32_has_the_same_bits_by_dot_products_of_bf16_pairs():
    """They multiply what is asked for in bf16, and nothing else."""
    v3, other = digests("v3"), digests("v4-bf16")

    float32 = [line for line in v3 if line.split()[-2] == "False"]
    assert len(float32) == 6
    assert float32 == [line for line in other if line.split()[-2] == "False"]


PROGRAM = """
#include "attention.c"
#include "inference.c"
#include <stdio.h>

/* What is not called. */
void matmul(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y,
            int64_t ldy, matmul_opts opts, void *scratch) {}
int64_t matmul_scratch_bytes(int64_t in, int64_t rows) { return 0; }

static void fill(float *x, int64_t count) {
    static uint64_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(state >> 32) / 2147483648.0f;
    }
}

static void print(const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) printf("%a%c", x[i], i + 1 < count ? ' ' : 10);
}

int main(void) {
    static float x[70], weight[70], bias[70], y[70], cache[24][140], weights[32];
    const void *rows[24];
    for (int64_t size = 1; size <= 70; size++) {
        layer_norm n = {.weight = weight, .bias = bias, .eps = 1e-5f};
        attention_shape one_head = {1, size, size, 0};
        fill(x, 70), fill(weight, 70), fill(bias, 70), fill(cache[0], 24 * 140);
        normalize(&n, x, size, y);
        print(y, size);
        for (int64_t i = 0; i < 24; i++) rows[i] = cache[i];
        self_attention(&one_head, x, rows, size % 24 + 1, weights, y);
        print(y, size);
    }
    return 0;
}
"""
"""Prints a layer normalization and an attention of each width."""


def test_arm_gives_the_bits_of_avx2(tmp_path):
    """The mean of squares in LayerNorm had others: Clang did not fuse it for ARM.

    All functions are compared by benchmarks/native_sanitizers.py.
    """
    pytest.importorskip("ziglang", reason="the compiler is not here")
    if not shutil.which("qemu-aarch64"):
        pytest.skip("qemu-aarch64 is not here")
    if not any(each.name == "v3" for each in usable()):
        pytest.skip("this processor cannot run v3")
    script = build_script()
    left_out = ("-shared", "-fPIC", "-Werror")
    flags = [each for each in script.FLAGS if each not in left_out]
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    found, cache = [], str(script.ROOT / "build" / "zig-cache")
    for name, target, linked in (
        ("v3", "x86_64-linux-gnu.2.17", ()),
        ("neon", "aarch64-linux-musl", ("-static",)),
    ):
        program = tmp_path / name
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *linked]
        command += [*flags, *script.PROCESSORS[name], f"-I{script.SOURCES}"]
        subprocess.run(
            [*command, str(source), "-o", str(program)],
            env=environment(ZIG_GLOBAL_CACHE_DIR=cache, ZIG_LOCAL_CACHE_DIR=cache),
            check=True,
        )
        runs = [] if name == "v3" else ["qemu-aarch64"]
        found.append(subprocess.check_output([*runs, str(program)], text=True))

    assert len(found[0].split()) == 2 * sum(range(71))
    assert found[0].splitlines() == found[1].splitlines()
