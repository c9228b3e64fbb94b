"""Times headproof beside PyTorch's and ONNX Runtime's attention; `./run peers` calls it.

    peers.py LIBRARY [--works NAME...] [--threads 1,2] [--seconds S] [--json FILE]

All run in this process, in turns, on the same float32 numbers; a time is the median over the turns.
Each library counts with the fastest of its ways to do a work. What computes something else than the
definition is excluded, and said so. README.md has more.
"""

import argparse
import ctypes
import functools
import json
import math
import os
import re
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

WORKS = ["prefill 1x12x1024x64", "prefill 1x12x4096x64", "prefill 1x1x16384x64",
         "prefill 1x32x2048x128", "forward+backward 1x12x4096x64", "call 4x1x8x16",
         "decode 32x128x4096", "decode 32x128x32768"]

# One small work for each kind; 37 keys fill no block of anybody's.
CHECKS = {"prefill": "prefill 2x4x37x16", "call": "call 2x4x37x16",
          "forward+backward": "forward+backward 2x4x37x16", "decode": "decode 4x16x37"}


class Problem(ctypes.Structure):
    """The struct of the same name in peers_library.cc."""
    _fields_ = ([(name, ctypes.c_int64)
                 for name in ("batch", "num_heads", "num_kv_heads", "seq_len", "head_dim")] +
                [(name, ctypes.c_void_p)
                 for name in ("q", "k", "v", "d_out", "out", "lse", "d_q", "d_k", "d_v")])


class Work:
    """A work's sizes and arrays, [batch, num_heads, seq_len, head_dim]; seq_len_q is 1 in decode."""

    def __init__(self, name):
        self.name = name
        self.kind, sizes = name.split(" ")
        numbers = [int(number) for number in sizes.split("x")]
        if self.kind == "decode":
            heads, dim, keys = numbers
            numbers = [1, heads, keys, dim]
        batch, heads, keys, dim = numbers
        self.causal = self.kind != "decode"
        queries = keys if self.causal else 1
        random = np.random.default_rng(0)

        def normal(rows):
            return random.standard_normal((batch, heads, rows, dim), dtype=np.float32)

        self.q, self.k, self.v = normal(queries), normal(keys), normal(keys)
        self.d_out = normal(queries) if self.kind == "forward+backward" else None


class Contender:
    """One way to do a work: `run` does it, `results` gives what it computed last, as arrays."""

    def __init__(self, library, way, run, results):
        self.library, self.way, self.run, self.results = library, way, run, results

    def __str__(self):
        return f"{self.library} ({self.way})" if self.way else self.library


def headproof_contenders(work, library, threads):
    library.headproof_peers_threads(threads)
    batch, heads, keys, dim = work.k.shape
    out = np.empty_like(work.q)
    lse = np.empty(work.q.shape[:3], np.float32)
    gradients = [np.empty_like(array) for array in (work.q, work.k, work.v)]
    arrays = [work.q, work.k, work.v, work.d_out, out, lse, *gradients]
    problem = Problem(batch, heads, heads, keys, dim,
                      *(None if array is None else array.ctypes.data for array in arrays))
    pointer = ctypes.byref(problem)
    backward = work.kind == "forward+backward"
    if work.kind == "decode":
        library.headproof_peers_cache.restype = ctypes.c_void_p
        cache = ctypes.c_void_p(library.headproof_peers_cache(pointer))
        run = functools.partial(library.headproof_peers_decode, cache, pointer)
    else:
        run = functools.partial(library.headproof_peers_gradients if backward
                                else library.headproof_peers_forward, pointer)
    if run() != 0:
        raise RuntimeError(f"headproof refuses {work.name}")

    def results(keep=(arrays, problem)):  # the pointers point into these
        return [out, *gradients] if backward else [out]

    return [Contender("headproof", "", run, results)]


def torch_contenders(work, threads):
    torch.set_num_threads(threads)
    q, k, v = (torch.from_numpy(array) for array in (work.q, work.k, work.v))
    attention = functools.partial(torch.nn.functional.scaled_dot_product_attention,
                                  is_causal=work.causal)

    def contender(way, backend):
        found = []

        def forward():
            with torch.inference_mode():
                found[:] = [attention(q, k, v)]

        def gradients():
            inputs = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
            out = attention(*inputs)
            found[:] = [out.detach(), *torch.autograd.grad(out, inputs, d_out)]

        run = forward if work.d_out is None else gradients
        d_out = None if work.d_out is None else torch.from_numpy(work.d_out)

        def run_with_backend():
            with sdpa_kernel(backend):
                run()

        return Contender("PyTorch", way, run if backend is None else run_with_backend,
                         lambda: [tensor.numpy() for tensor in found])

    return [contender("default", None), contender("flash", SDPBackend.FLASH_ATTENTION),
            contender("math", SDPBackend.MATH)]


def onnx_contenders(work, threads):
    batch, heads, keys, dim = work.k.shape
    queries = work.q.shape[2]

    def joined(array):  # [batch, seq_len, num_heads * head_dim], what two of the operators take
        return np.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(batch, -1, heads * dim)

    def split(array):
        return array.reshape(batch, queries, heads, dim).transpose(0, 2, 1, 3)

    def contender(op, domain, inputs, attributes, out, shape_out, in_place=()):
        """`inputs` in the operator's order, None where one is left out; what follows out among the
        outputs is `in_place`, (name, value of the input that it overwrites or None)."""
        outputs = [("out", out)] + [(name, array) for name, array in in_place]
        node = onnx.helper.make_node(
            op, [name if array is not None else "" for name, array in inputs],
            [name for name, _ in outputs], domain=domain, **attributes)

        def info(name, array):
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            return onnx.helper.make_tensor_value_info(name, kind, array.shape)

        given = [(name, array) for name, array in inputs if array is not None]
        graph = onnx.helper.make_graph([node], op, [info(*each) for each in given],
                                       [info(*each) for each in outputs])
        model = onnx.helper.make_model(
            graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 23),
                                                 onnx.helper.make_opsetid("com.microsoft", 1)])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        values = {}  # on a CPU a value is the array's own memory
        for name, array in given:
            values[id(array)] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
            binding.bind_ortvalue_input(name, values[id(array)])
        for name, array in outputs:
            value = values.get(id(array)) or onnxruntime.OrtValue.ortvalue_from_numpy(array)
            values[id(array)] = value
            binding.bind_ortvalue_output(name, value)
        run = functools.partial(session.run_with_iobinding, binding)

        def results(keep=(given, outputs, values)):
            return [shape_out(out)]

        return Contender("ONNX Runtime", op, run, results)

    if work.d_out is not None:
        return []  # it has no gradients
    contenders = []
    attempts = []
    lengths = np.full(batch, keys - 1, np.int32)
    total = np.array(keys, np.int32)
    joined_out = np.empty((batch, queries, heads * dim), np.float32)
    sharing = {"num_heads": heads, "kv_num_heads": heads}
    if work.causal:
        present = [("present_k", np.empty_like(work.k)), ("present_v", np.empty_like(work.v))]
        query, key, value = joined(work.q), joined(work.k), joined(work.v)
        attempts.append(("GroupQueryAttention", "com.microsoft",
                         [("q", query), ("k", key), ("v", value), ("past_k", None),
                          ("past_v", None), ("lengths", lengths), ("total", total)],
                         sharing, joined_out, split, present))
        attempts.append(("MultiHeadAttention", "com.microsoft",
                         [("q", query), ("k", key), ("v", value)],
                         {"num_heads": heads, "unidirectional": 1}, joined_out.copy(), split))
    else:
        # The last key and value come with the query and are written where they lie already.
        last = slice(keys - 1, keys)
        attempts.append(("GroupQueryAttention", "com.microsoft",
                         [("q", joined(work.q)), ("k", joined(work.k[:, :, last])),
                          ("v", joined(work.v[:, :, last])), ("past_k", work.k),
                          ("past_v", work.v), ("lengths", lengths), ("total", total)],
                         sharing, joined_out, split,
                         [("present_k", work.k), ("present_v", work.v)]))
        attempts.append(("MultiHeadAttention", "com.microsoft",
                         [("q", joined(work.q)), ("k", work.k), ("v", work.v)],
                         {"num_heads": heads}, joined_out.copy(), split))
    attempts.append(("Attention", "", [("q", work.q), ("k", work.k), ("v", work.v)],
                     {"is_causal": int(work.causal)}, np.empty_like(work.q), lambda out: out))
    for attempt in attempts:
        try:
            contenders.append(contender(*attempt))
        except Exception as error:  # an older release lacks one of them
            print(f"excluded: ONNX Runtime ({attempt[0]}): {error}", file=sys.stderr)
    return contenders


def definition(work):
    """The definition in float64, and a bound for float32: a score has an error of head_dim + 4
    roundings of its size at most, which exp turns into a relative one of a weight; sums over the
    keys add one rounding each. 8 allows for what the gradients multiply on the way."""
    q, k, v = (array.astype(np.float64) for array in (work.q, work.k, work.v))
    scale = 1 / math.sqrt(q.shape[-1])
    scores = scale * q @ k.swapaxes(-1, -2)
    if work.causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    results = [weights @ v]
    if work.d_out is not None:
        d_out = work.d_out.astype(np.float64)
        d_weights = d_out @ v.swapaxes(-1, -2)
        d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True)) * scale
        results += [d_scores @ k, d_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ d_out]
    largest = np.abs(scores[np.isfinite(scores)]).max()
    roundings = k.shape[2] + 2 * (k.shape[3] + 4) * max(largest, 1)
    return results, 8 * roundings * 2.0**-24


def contenders_of(work, library, threads):
    return (headproof_contenders(work, library, threads) + torch_contenders(work, threads) +
            onnx_contenders(work, threads))


def wrong_contenders(kind, library, threads):
    """The names of those that refuse a small work or compute something else; says which and why."""
    wrong = set()
    work = Work(CHECKS[kind])
    expected, bound = definition(work)
    for contender in contenders_of(work, library, threads):
        try:
            contender.run()
            # An error relative to the largest element: small ones are sums of large ones.
            error = max(np.abs(found - right).max() / np.abs(right).max()
                        for found, right in zip(contender.results(), expected, strict=True))
            complaint = None if error <= bound else f"differs by {error:.2g}, above {bound:.2g}"
        except Exception as caught:
            complaint = str(caught).splitlines()[0]
        if complaint is not None:
            wrong.add(str(contender))
            print(f"excluded from {kind}: {contender}: {complaint}", file=sys.stderr)
    return wrong


def seconds_of(contender, repeats):
    run = contender.run
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return time.perf_counter() - start


def measure(contenders, seconds):
    """The median time of each, in turns. Where a call takes long, a way that is twice as slow as
    another of its library's cannot be its best and leaves after the first look."""
    repeats, first = {}, {}
    for contender in contenders:
        contender.run()
        repeats[contender], elapsed = 1, seconds_of(contender, 1)
        while elapsed < 5e-3:  # beside which reading a clock is nothing
            repeats[contender] *= 2
            elapsed = seconds_of(contender, repeats[contender])
        first[contender] = elapsed / repeats[contender]
    running = [c for c in contenders
               if first[c] <= max(0.1, 2 * min(first[d] for d in contenders
                                               if d.library == c.library))]
    times = {contender: [] for contender in running}
    start = time.perf_counter()
    turns = 0
    while turns < 3 or time.perf_counter() - start < seconds * len(running):
        turns += 1
        for contender in running:
            time.sleep(0.1)  # until the threads of the one before have stopped to look for work
            contender.run()
            times[contender].append(seconds_of(contender, repeats[contender]) / repeats[contender])
    return {contender: statistics.median(values) for contender, values in times.items()}


def time_text(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3f} {unit}"
    return f"{seconds * 1e6:.2f} us"


def main():
    parser = argparse.ArgumentParser(description="headproof beside PyTorch and ONNX Runtime")
    parser.add_argument("library", help="libheadproof_peers.so")
    parser.add_argument("--works", nargs="+", default=WORKS, metavar="NAME",
                        help="as in headproof bench; prefill, forward+backward, call, decode")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas")
    parser.add_argument("--seconds", type=float, default=3, help="for each contender and work")
    parser.add_argument("--json", help="a file that gets every median")
    arguments = parser.parse_args()
    for name in arguments.works:
        if not re.fullmatch(r"(prefill|forward\+backward|call) \d+x\d+x\d+x\d+|decode \d+x\d+x\d+",
                            name):
            parser.error(f'"{name}" is no work of this program')
    library = ctypes.CDLL(os.path.abspath(arguments.library))

    print(f"PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}; "
          "ratios are their time over headproof's\n")
    line = "| {:<29} | {:>7} | {:>10} | {:>10} | {:>5} | {:<7} | {:>12} | {:>5} | {:<19} |"
    print(line.format("work", "threads", "headproof", "PyTorch", "ratio", "way", "ONNX Runtime",
                      "ratio", "operator"))
    print(re.sub(r"[^|]", "-", line.format(*[""] * 9)))
    rows = []
    wrong = {}
    for threads in [int(number) for number in arguments.threads.split(",")]:
        for name in arguments.works:
            work = Work(name)
            if work.kind not in wrong:
                wrong[work.kind] = wrong_contenders(work.kind, library, threads)
            medians = measure([contender for contender in contenders_of(work, library, threads)
                               if str(contender) not in wrong[work.kind]], arguments.seconds)
            ours = next(time for c, time in medians.items() if c.library == "headproof")
            cells = []
            for peer in ("PyTorch", "ONNX Runtime"):
                best = min((c for c in medians if c.library == peer), key=medians.get, default=None)
                cells += ["", "", "none"] if best is None else [
                    time_text(medians[best]), f"{medians[best] / ours:.2f}", best.way]
            print(line.format(name, threads, time_text(ours), *cells), flush=True)
            rows.append({"work": name, "threads": threads,
                         "seconds": {str(c): median for c, median in medians.items()}})
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"schema_version": 1, "torch": torch.__version__,
                       "onnxruntime": onnxruntime.__version__, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
