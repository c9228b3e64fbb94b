"""An attention on the pipe, in nothing but Python's standard library. Any language will do:

    headproof check 'command:python3 pipe.py'
"""
import math
import struct
import sys


def attention(q, k, v, see):
    """One head: q, k, v as lists of rows; see(i) is how many keys query i may see."""
    out = []
    for i, query in enumerate(q):
        keys = range(see(i))
        scores = [sum(a * b for a, b in zip(query, k[j])) / math.sqrt(len(query)) for j in keys]
        largest = max(scores)
        weights = [math.exp(score - largest) for score in scores]
        total = sum(weights)
        out.append([sum(weights[j] * v[j][c] for j in keys) / total for c in range(len(v[0]))])
    return out


# The protocol: a line of words, numbers behind it; a line back, numbers behind it.
for line in sys.stdin.buffer:
    word, *tokens = line.decode().split()
    asked = dict(token.split("=") for token in tokens)
    if word == "hello":
        print("ok protocol=1 name=pipe.py features=causal,non_causal,batches,heads", flush=True)
        continue
    data = sys.stdin.buffer.read(int(asked["bytes"]))
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    batch, heads, length, dim = (int(asked[name]) for name in (
        "batch", "num_heads", "seq_len_q", "head_dim"))
    rows = [numbers[at:at + dim] for at in range(0, len(numbers), dim)]
    count = batch * heads * length  # as many rows has each of q, k and v
    see = (lambda i: i + 1) if asked["causal"] != "none" else (lambda i: length)
    out = []
    for first in range(0, count, length):
        q, k, v = (rows[start + first:start + first + length] for start in (0, count, 2 * count))
        out += [value for row in attention(q, k, v, see) for value in row]
    sys.stdout.buffer.write(b"ok\n" + struct.pack(f"<{len(out)}f", *out))
    sys.stdout.buffer.flush()
