"""Answers headproof's questions (docs/subjects.md) with a Python callable.

As a program, over a pipe: its arguments are kind (attention or head), module:function, framework,
device, dtype, layout. In a process of the caller's: a Server with the callable itself.
"""
import importlib
import inspect
import os
import re
import sys


class Stop(Exception):
    """Ends a question with a word and a sentence."""


class Numpy:
    def __init__(self, device, dtype):
        import numpy
        self.np = numpy
        if dtype == "bfloat16":
            raise Stop("NumPy has no bfloat16; the frameworks torch and jax have")
        if device != "cpu":
            raise Stop("NumPy knows the device cpu alone")
        self.dtype = numpy.dtype(dtype)
        self.wire = numpy.dtype("<f8" if dtype == "float64" else "<f4")

    def array(self, data, shape, strided=0, head_axis=1):
        values = self.np.frombuffer(data, self.wire).reshape(shape).astype(self.dtype)
        if not strided:
            return values
        shared = shares_memory(values, head_axis)
        if shared:
            values = values.take([0], head_axis)
        one, two, three, dim = values.shape
        memory = self.np.full([one, three, two, strided * dim + 3], self.np.nan, self.dtype)
        view = memory.transpose(0, 2, 1, 3)[..., :strided * dim:strided]
        if strided == 2:
            view = view[..., ::-1]
        view[...] = values
        if shared:
            strides = list(view.strides)
            strides[head_axis] = 0
            view = self.np.lib.stride_tricks.as_strided(view, shape, strides)
        return view

    def mask(self, data, shape):
        return self.np.frombuffer(data, self.np.bool_).reshape(shape).copy()

    def lengths(self, data):
        return self.np.frombuffer(data, "<i8").copy()

    def snapshot(self, array):
        return array.tobytes()

    def describe(self, value):
        if not isinstance(value, self.np.ndarray):
            return None
        return tuple(value.shape), str(value.dtype)

    def bytes(self, array):
        return array.astype(self.wire, copy=False).tobytes()

    def call(self, function, arguments):
        return function(**arguments)


class Torch:
    def __init__(self, device, dtype):
        import torch
        self.torch = torch
        self.device = device
        self.dtype = getattr(torch, dtype)
        self.wire = torch.float64 if dtype == "float64" else torch.float32

    def array(self, data, shape, strided=0, head_axis=1):
        torch = self.torch
        values = torch.empty(shape, dtype=self.wire)
        if values.numel():
            values = torch.frombuffer(bytearray(data), dtype=self.wire).reshape(shape)
        values = values.to(device=self.device, dtype=self.dtype)
        if not strided:
            return values
        shared = shares_memory(values, head_axis)
        if shared:
            values = values.narrow(head_axis, 0, 1)
        one, two, three, dim = values.shape
        memory = torch.full([one, three, two, strided * dim + 3], float("nan"),
                            dtype=self.dtype, device=self.device)
        view = memory.transpose(1, 2)[..., :strided * dim:strided]  # no stride here is negative
        view.copy_(values)
        return view.expand(shape) if shared else view

    def mask(self, data, shape):
        torch = self.torch
        if not data:
            return torch.empty(shape, dtype=torch.bool, device=self.device)
        return torch.frombuffer(bytearray(data), dtype=torch.bool).reshape(shape).to(self.device)

    def lengths(self, data):
        torch = self.torch
        return torch.frombuffer(bytearray(data), dtype=torch.int64).to(self.device)

    def snapshot(self, tensor):
        tensor = tensor.detach()
        if tensor.dtype == self.torch.bool:
            tensor = tensor.to(self.torch.uint8)
        return self.raw(tensor)

    def raw(self, tensor):
        import ctypes
        tensor = tensor.detach().cpu().contiguous()
        return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())

    def describe(self, value):
        if not isinstance(value, self.torch.Tensor):
            return None
        return tuple(value.shape), str(value.dtype).split(".")[-1]

    def bytes(self, tensor):
        return self.raw(tensor.detach().to(self.wire))

    def call(self, function, arguments):
        with self.torch.no_grad():
            return function(**arguments)

    def gradients(self, server, arguments, names, d_out):
        inputs = [arguments[name].detach().requires_grad_() for name in names]
        out = first(server.function(**{**arguments, **dict(zip(names, inputs))}))
        server.check(out, d_out.shape)
        found = self.torch.autograd.grad(out, inputs, d_out, allow_unused=True)
        return out, [self.torch.zeros_like(x) if d is None else d for x, d in zip(inputs, found)]


class Jax:
    def __init__(self, device, dtype):
        import jax
        import numpy
        if dtype == "float64":
            jax.config.update("jax_enable_x64", True)
        self.jax, self.np = jax, numpy
        self.dtype = jax.numpy.dtype(dtype)
        self.wire = numpy.dtype("<f8" if dtype == "float64" else "<f4")
        self.device = jax.devices(device)[0]

    def put(self, values):
        return self.jax.device_put(values, self.device)

    def array(self, data, shape, strided=0, head_axis=1):
        return self.put(self.np.frombuffer(data, self.wire).reshape(shape)).astype(self.dtype)

    def mask(self, data, shape):
        return self.put(self.np.frombuffer(data, self.np.bool_).reshape(shape))

    def lengths(self, data):
        return self.put(self.np.frombuffer(data, "<i8").astype(self.np.int32))

    def snapshot(self, array):
        return None  # its arrays cannot be changed

    def describe(self, value):
        if not isinstance(value, self.jax.Array):
            return None
        return tuple(value.shape), str(value.dtype)

    def bytes(self, array):
        return self.np.asarray(array.astype(self.wire)).tobytes()

    def call(self, function, arguments):
        return function(**arguments)

    def gradients(self, server, arguments, names, d_out):
        def of_inputs(*inputs):
            return first(server.function(**{**arguments, **dict(zip(names, inputs))}))
        out, pull_back = self.jax.vjp(of_inputs, *[arguments[name] for name in names])
        server.check(out, d_out.shape)
        return out, pull_back(d_out)


def shares_memory(values, head_axis):
    """Whether all heads are equal and so may be one in memory, with a stride of 0."""
    heads = values.swapaxes(0, head_axis)
    return len(heads) > 1 and bool((heads == heads[:1]).all())


def first(result):
    return result[0] if isinstance(result, (tuple, list)) and result else result


def shown(exception):
    """The exception in one line: its type and the first line of its message."""
    try:
        text = str(exception)
    except Exception:  # its own __str__ fails
        text = ""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return f"{type(exception).__name__}: {lines[0].strip()}" if lines else type(exception).__name__


def load(target):
    """The callable module:function; Stop says what is missing."""
    module_name, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as exception:
        if exception.name and (module_name + ".").startswith(exception.name + "."):
            raise Stop(f"there is no module {exception.name} in {os.getcwd()} or where "
                       f"{sys.executable} looks for modules")
        raise Stop(f"importing {module_name} failed with {shown(exception)}")
    except Exception as exception:
        raise Stop(f"importing {module_name} failed with {shown(exception)}")
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, value in vars(module).items() if callable(value) and n[0] != "_"]
            raise Stop(f"{module_name} has no {name}; its functions: {', '.join(names) or 'none'}")
        found = getattr(found, part)
    return found


def named_parameters(function):
    """The parameters that the signature names, with their defaults."""
    try:
        found = inspect.signature(function).parameters.values()
        return {p.name: p.default for p in found
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    except (TypeError, ValueError):
        # Functions written in C say it in the first line of their documentation, if anywhere.
        text = re.match(r"\s*\w+\(([^)]*)\)", function.__doc__ or "")
        names = text.group(1).split(",") if text else []
        return {re.split("[=:]", name)[0].strip(): inspect.Parameter.empty
                for name in names if name.strip() not in ("", "*", "/")}


def one_of(*words):
    return ", ".join(words[:-1]) + " or " + words[-1], lambda value: value in words


def list_of(kind):
    return lambda value: isinstance(value, (tuple, list)) and all(
        isinstance(item, kind) for item in value)


# What the attribute `headproof` of a callable may say.
DECLARED = {
    "framework": one_of("numpy", "torch", "jax"),
    "dtype": one_of("float32", "float64", "float16", "bfloat16"),
    "layout": one_of("bhsd", "bshd"),
    "name": ("a text without spaces", lambda x: isinstance(x, str) and x.split() == [x]),
    "head_dims": ("a tuple of whole numbers", list_of(int)),
    "length_multiple": ("a whole number", lambda x: isinstance(x, int)),
    "max_length": ("a whole number", lambda x: isinstance(x, int)),
    "features": ("a list of names", list_of(str)),
}


def declaration(function, target):
    """What the attribute says; Stop says what is wrong with it."""
    declared = getattr(function, "headproof", {})
    if not isinstance(declared, dict):
        raise Stop(f"{target}.headproof is {declared!r:.80}; it must be a dict, such as "
                   "{'head_dims': (16, 32)}")
    for key, value in declared.items():
        if key not in DECLARED:
            raise Stop(f"{target}.headproof has the key {key!r:.80}; there are "
                       f"{', '.join(DECLARED)}")
        what, accepts = DECLARED[key]
        if not accepts(value):
            raise Stop(f"{target}.headproof[{key!r}] is {value!r:.80}; it must be {what}")
    return dict(declared)


def has_signature(function):
    try:
        return bool(inspect.signature(function))
    except (TypeError, ValueError):
        return False


def by_name(function):
    """The function, to be called with keywords even where its signature takes positions only."""
    parameters = inspect.signature(function).parameters.values() if has_signature(function) else ()
    first = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]

    def call(**given):
        return function(*[given.pop(p.name, p.default) for p in first], **given)
    return call if first else function


# Features by the names of parameters; the first that a signature has is used.
OPTIONS = {
    "scale": ["scale", "softmax_scale"],
    "mask": ["attn_mask", "mask"],
    "bias": ["bias", "attn_bias", "attn_mask", "mask"],
    "grouped_heads": ["enable_gqa"],
    "window": ["window", "window_size"],
    "softcap": ["softcap"],
    "key_length": ["key_length", "key_lengths"],
    "query_offset": ["query_offset"],
    "lse": ["return_lse"],
    "weights": ["return_weights"],
    "threads": ["threads", "num_threads"],
    "decode": ["decode"],
}
CAUSAL = ["is_causal", "causal"]


class Server:
    """A callable that answers questions: bytes in, bytes out."""

    def __init__(self, function, target, kind="attention", framework="numpy", device="cpu",
                 dtype="float32", layout="bhsd", own_process=False):
        if not callable(function):
            raise Stop(f"{target} is not callable; it is {type(function).__name__}")
        # What a signature cannot say.
        self.declared = declaration(function, target)
        self.function, self.target, self.kind = by_name(function), target, kind
        self.framework = self.declared.pop("framework", framework)
        self.dtype = self.declared.pop("dtype", dtype)
        self.layout = self.declared.pop("layout", layout)
        self.device = device
        # PyTorch's number of threads belongs to the whole process.
        self.sets_threads = own_process and self.framework == "torch" and device == "cpu"
        if kind == "head" and self.dtype == "float64":
            raise Stop("a whole head is asked in float32, float16 or bfloat16")
        frames = {"numpy": Numpy, "torch": Torch, "jax": Jax}
        self.frame = frames[self.framework](device, self.dtype)
        self.parameters = named_parameters(function)
        needed = 3 if kind == "attention" else 4
        self.inputs = list(self.parameters)[:needed]
        self.names = {}
        for feature, names in OPTIONS.items() if kind == "attention" else ():
            for name in names:
                if name in self.parameters and feature not in self.names:
                    self.names[feature] = name
        self.causal = next((name for name in CAUSAL if name in self.parameters), None)
        if len(self.inputs) < needed:
            raise Stop(f"{target} names {len(self.inputs)} parameters; it must take at least "
                       + ("q, k and v" if needed == 3 else "x, w_q, w_k and w_v"))
        unknown = [name for name, default in list(self.parameters.items())[needed:]
                   if default is inspect.Parameter.empty and name != self.causal
                   and name not in self.names.values()]
        if unknown and has_signature(function):
            raise Stop(f"{target} needs a value for '{unknown[0]}', which is none of the options "
                       "in docs/subjects.md")

    def answer(self, question):
        """The reply to a question, a line and what follows it; of what the function raises
        only KeyboardInterrupt and its like get out."""
        line, _, payload = question.partition(b"\n")
        word, *tokens = line.decode().split()
        try:
            if word == "hello":
                return as_line(self.hello())
            asked = dict(token.split("=", 1) for token in tokens)
            return self.attend(asked, payload) if word == "attend" else self.head(asked, payload)
        except Stop as stop:
            return as_line(str(stop))
        except NotImplementedError as exception:
            return as_line(f"unsupported {self.target} raised {shown(exception)}")
        except (Exception, SystemExit) as exception:
            return as_line(f"error {self.target} raised {shown(exception)}")

    def hello(self):
        if self.kind == "head":
            features = ["causal"] + (["non_causal"] if self.causal else [])
            return f"ok protocol=1 kind=head features={','.join(features)}"
        features = ["non_causal", "rectangular", "value_dim", "zero_sizes", "batches", "heads"]
        features += (["causal"] if self.causal else []) + list(self.names)
        features += ["strides"] if self.framework != "jax" else []
        features += ["backward"] if self.framework != "numpy" else []
        if self.sets_threads and "threads" not in features:
            features.append("threads")
        declared = dict(self.declared)
        features += [name for name in declared.pop("features", []) if name not in features]
        line = f"ok protocol=1 dtype={self.dtype} layout={self.layout}"
        for key, value in declared.items():
            text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else value
            line += f" {key}={text}"
        return f"{line} features={','.join(features)}"

    def check(self, value, shape, what="out"):
        """The value is an array of that shape and of the dtype that was handed over."""
        found = self.frame.describe(value)
        if found is None:
            raise Stop(f"error {self.target} returned {type(value).__name__} as {what}; "
                       f"it must be an array of {self.framework}")
        if found[0] != tuple(shape):
            raise Stop(f"error {self.target} returned {what} of shape {list(found[0])}; "
                       f"it must be {list(shape)}")
        if found[1] != self.dtype:
            raise Stop(f"error {self.target} returned {what} in {found[1]}, though it was given "
                       f"{self.dtype}")

    def options(self, question):
        """The keyword arguments that the line itself says."""
        options = {}
        causal = question["causal"] != "none"
        if self.causal:
            options[self.causal] = causal
        elif causal and self.kind == "attention":
            raise Stop("unsupported its signature names no is_causal")
        for feature, convert in (("scale", float), ("softcap", float), ("query_offset", int),
                                 ("decode", bool), ("threads", int)):
            if feature in question and feature in self.names:
                options[self.names[feature]] = convert(question[feature])
        if "window" in question:
            name, width = self.names["window"], int(question["window"])
            pair = isinstance(self.parameters[name], tuple)
            options[name] = (width - 1, 0 if causal else -1) if pair else width
        if "grouped_heads" in self.names and question["num_heads"] != question["num_kv_heads"]:
            options[self.names["grouped_heads"]] = True
        for feature in ("lse", "weights"):
            if feature in question:
                options[self.names[feature]] = True
        return options

    def attend(self, question, payload):
        size = {key: int(question[key]) for key in (
            "batch", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_k", "head_dim",
            "value_dim")}
        batch, rows, keys = size["batch"], size["seq_len_q"], size["seq_len_k"]
        number = 8 if self.dtype == "float64" else 4
        frame = self.frame
        at = 0

        def part(count):
            nonlocal at
            at += count
            return payload[at - count:at]

        def shape(heads, length, dim):
            heads = size[heads]
            if self.layout == "bhsd":
                return batch, heads, length, dim
            return batch, length, heads, dim

        def array(heads, length, dim, strided=0):
            of = shape(heads, length, dim)
            return frame.array(part(number * of[0] * of[1] * of[2] * of[3]), of, strided,
                               self.layout.index("h"))

        if "threads" in question and "threads" not in self.names:
            frame.torch.set_num_threads(int(question["threads"]))
        strided = int(question.get("strided", 0))
        arguments = self.options(question)
        q, k, v = self.inputs
        arguments[q] = array("num_heads", rows, size["head_dim"], strided)
        arguments[k] = array("num_kv_heads", keys, size["head_dim"], strided)
        arguments[v] = array("num_kv_heads", keys, size["value_dim"], strided)
        watched = [q, k, v]
        for feature, width in (("mask", 1), ("bias", number)):
            if feature not in question:
                continue
            of = tuple(map(int, question[feature].split("x")))
            data = part(width * of[0] * of[1] * of[2] * of[3])
            name = self.names[feature]
            arguments[name] = frame.mask(data, of) if feature == "mask" else frame.array(data, of)
            watched.append(name)
        if "key_length" in question:
            arguments[self.names["key_length"]] = frame.lengths(part(8 * batch))
        before = [frame.snapshot(arguments[name]) for name in watched]
        out_shape = shape("num_heads", rows, size["value_dim"])

        gradients = []
        if "backward" in question:
            d_out = array("num_heads", rows, size["value_dim"])
            out, gradients = frame.gradients(self, arguments, self.inputs, d_out)
            result = [out]
        else:
            result = frame.call(self.function, arguments)
            wanted = 1 + ("lse" in question) + ("weights" in question)
            if wanted > 1 and (not isinstance(result, (tuple, list)) or len(result) != wanted):
                raise Stop(f"error {self.target} was asked for {wanted} results and returned "
                           f"{type(result).__name__}")
            result = list(result) if wanted > 1 else [result]
        self.check(result[0], out_shape)
        if "lse" in question:
            found = frame.describe(result[1])
            if found is None or found[0] != (batch, size["num_heads"], rows):
                raise Stop(f"error {self.target} must return lse of shape "
                           f"{[batch, size['num_heads'], rows]}")
        if "weights" in question:
            self.check(result[-1], (batch, size["num_heads"], rows, keys), "A")
        changed = any(frame.snapshot(arguments[name]) != data
                      for name, data in zip(watched, before))
        numbers = b"".join(frame.bytes(value) for value in [*result, *gradients])
        return (b"ok%s bytes=%d\n" % (b" inputs_changed=1" if changed else b"", len(numbers))
                + numbers)

    def head(self, question, payload):
        batch, seq_len, model_dim, head_dim = (int(question[key]) for key in (
            "batch", "seq_len", "model_dim", "head_dim"))
        cut = 4 * batch * seq_len * model_dim
        width = 4 * head_dim * model_dim
        frame = self.frame
        arguments = self.options(question)
        x, *weights = self.inputs
        arguments[x] = frame.array(payload[:cut], (batch, seq_len, model_dim))
        for at, name in enumerate(weights):
            data = payload[cut + at * width:cut + (at + 1) * width]
            arguments[name] = frame.array(data, (head_dim, model_dim))
        result = frame.call(self.function, arguments)
        both = isinstance(result, (tuple, list))
        if both and len(result) != 2:
            raise Stop(f"error {self.target} returned {len(result)} results; it must be out or "
                       "(out, A)")
        self.check(result[0] if both else result, (batch, seq_len, head_dim))
        if both:
            self.check(result[1], (batch, seq_len, seq_len), "A")
        numbers = b"".join(frame.bytes(value) for value in (result if both else [result]))
        return b"ok%s bytes=%d\n" % (b" weights=1" if both else b"", len(numbers)) + numbers


def as_line(text):
    return text.replace("\n", " ").encode("ascii", "replace") + b"\n"


def leave_with_the_checker(questions):
    """Whoever asked may be gone while the callable hangs; then nobody else would end it."""
    import select
    import time
    poll = select.poll()
    poll.register(questions.fileno(), 0)
    poll.poll()
    time.sleep(2)
    os._exit(1)


def serve(kind, target, *rest):
    import threading
    # Threads of OpenMP that spin while they wait would slow a busy machine down by orders of
    # magnitude.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # What the callable prints must not get between the replies.
    questions = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    threading.Thread(target=leave_with_the_checker, args=[questions], daemon=True).start()

    server = refusal = None
    for line in questions:
        sizes = [token[6:] for token in line.split() if token.startswith(b"bytes=")]
        payload = questions.read(int(sizes[0])) if sizes else b""
        if not server and not refusal:
            try:
                server = Server(load(target), target, kind, *rest, own_process=True)
            except ModuleNotFoundError as exception:
                refusal = (f"error {sys.executable} has no module {exception.name}; install it "
                           "there, or name another interpreter with --python")
            except Stop as stop:
                refusal = f"error {stop}"
        replies.write(as_line(refusal) if refusal else server.answer(line + payload))
        replies.flush()


if __name__ == "__main__":
    serve(*sys.argv[1:7])
