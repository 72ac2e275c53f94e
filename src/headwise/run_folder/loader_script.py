"""A script that loads a model folder without headwise: the format as code."""

SCRIPT = '''\
"""Translate greedily: python loader.py FOLDER < lines of source ids > target ids."""
import json
import sys
import torch
from safetensors.torch import load_file
from torch.nn import functional as F
config = json.load(open(f"{sys.argv[1]}/config.json"))["architecture"]
if config.get("kind", "transformer") != "transformer": sys.exit("not a Transformer")
usual = dict(attention="scaled", norm_kind="layer", feed_forward="plain",
    residual="all", attention_window=None, num_key_value_heads=None)
other = {name: config.get(name, known) for name, known in usual.items()}
if other != usual or config["positions"] in "alibi shaw t5 number fraction".split():
    sys.exit(f"a variant: positions = {config['positions']}, {other}")
search = json.load(open(f"{sys.argv[1]}/generation.json"))
weights = load_file(f"{sys.argv[1]}/model.safetensors")
weights = {name: each.float() for name, each in weights.items()}  # may be float16
act = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}[config["activation"]]

def linear(x, name):
    return F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))
def norm(x, name):  # some norms are there in some models only
    gain, bias = weights.get(name + ".weight"), weights.get(name + ".bias")
    return x if gain is None else F.layer_norm(x, gain.shape, gain, bias)

def rotate(x):  # rotary positions (Su et al., 2021)
    even = torch.arange(0, x.shape[2], 2).double()
    angles = torch.arange(x.shape[1])[:, None] / 10000 ** (even / x.shape[2])
    (a, b), cos, sin = x.unflatten(2, (-1, 2)).unbind(3), angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], 3).flatten(2).float()

def attend(x, source, name, causal):  # Section 3.2
    qkv = [linear(x, name + ".to_queries")]
    qkv += [linear(source, name + each) for each in (".to_keys", ".to_values")]
    q, k, v = (y.unflatten(1, (config["num_heads"], -1)).transpose(0, 1) for y in qkv)
    if config["positions"] == "rotary" and x is source:
        q, k = rotate(q), rotate(k)
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # Equation 1
    return linear(heads.transpose(0, 1).flatten(1), name + ".to_output")

def add_positions(x, side):  # Sections 3.4 and 3.5
    kind, beside = config["positions"], config["position_join"] == "concatenate"
    even = torch.arange(0, config["d_model"] - beside * x.shape[1], 2).double()
    angles = torch.arange(len(x))[:, None] / 10000 ** (even / (2 * len(even)))
    waves = torch.stack([angles.sin(), angles.cos()], 2 if kind == "sinusoidal" else 1)
    learned = weights.get(f"enter_{side}.add_positions.scheme.vectors", x)[: len(x)]
    place = dict(learned=learned, none=0, rotary=0).get(kind, waves.flatten(1).float())
    return norm(torch.cat([x, place], 1) if beside else x + place, f"enter_{side}.norm")

def run_stack(side, x, sublayers, encoded=None):  # one side of Figure 1
    x = add_positions(x * x.shape[1] ** 0.5, side)
    n, m = config["encoder_layers"], config["decoder_layers"]
    alpha = {"encoder": 0.81 * (n**4 * m) ** (1 / 16), "decoder": (3 * m) ** 0.25}
    scale = alpha[side] if config["norm"] == "deep" else 1  # DeepNorm (Wang, 2022)
    for name in (f"{side}.blocks.{n}." for n in range(config[side + "_layers"])):
        for sub, around in ((s, f"{name}around_{s}.norm") for s in sublayers):
            y = norm(x, around) if config["norm"] == "pre" else x
            if sub == "feed_forward":
                y = linear(act(linear(y, f"{name}{sub}.widen")), f"{name}{sub}.narrow")
            elif sub == "cross":
                y = attend(y, encoded, name + "cross_attention", causal=False)
            else:
                y = attend(y, y, name + "self_attention", causal=side == "decoder")
            x = x + y if config["norm"] == "pre" else norm(scale * x + y, around)
    return norm(x, side + ".last_norm")

def logits(source, target):
    table = weights["embeddings.target.vectors"]
    own = weights.get("embeddings.source.vectors", table)
    encoded = run_stack("encoder", own[source], ["attention", "feed_forward"])
    x = run_stack("decoder", table[target], ["self", "cross", "feed_forward"], encoded)
    return F.linear(x, weights.get("output.vectors", table), weights.get("output.bias"))

for line in sys.stdin:
    source, out = [*map(int, line.split()), 2], [1]  # END follows, START begins
    most = search["max_length_factor"] * (len(source) - 1) + search["max_length_offset"]
    while out[-1] != 2 and len(out) <= most:
        out.append(2 + int(logits(source, out)[-1, 2:].argmax()))  # never 0 or 1
    print(*out[1:])
'''
