"""What `./run wheel` runs with the wheel it has made, in an environment with nothing else."""

import headproof

generator = headproof.Generator(0)
q, k, v = (generator.randn(2, 4, 100, 64) for _ in range(3))
out = headproof.scaled_dot_product_attention(q, k, v, is_causal=True)
print("out", out.shape, out.dtype)


def mine(query, key, value, is_causal=False):
    causal = "top_left" if is_causal else "none"
    return headproof.scaled_dot_product_attention(query, key, value, causal=causal)


print(repr(headproof.check(mine, seconds=2)))

text = headproof.default_text()[:48]
table = generator.randn(48, 32)
head = headproof.Head(32, 16, 48, generator)
head(table[None])
print(headproof.plot(head.A[0], text))
print(len(headproof.plot(head.A[0], text).draw("png")), "bytes of PNG")
