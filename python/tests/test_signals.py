"""The GIL is free during work, and Ctrl-C stops it."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from headproof import Generator, Head, KvCache, attention_backward
from headproof import scaled_dot_product_attention as attention

LONG = """
import os, signal, threading, time
import numpy as np
import headproof

q = np.zeros((1, 4, 60_000, 64), np.float32)  # a minute and more on any machine
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
started = time.time()
try:
    {call}
except KeyboardInterrupt:
    assert time.time() - started < 20
    # And the next call is as it should be.
    one = np.ones((1, 1), np.float32)
    assert headproof.scaled_dot_product_attention(one, one, one) == 1
    print("stopped")
"""


def stopped(call):
    ended = subprocess.run([sys.executable, "-c", LONG.format(call=call)], capture_output=True,
                           text=True, timeout=300)
    return ended.stdout == "stopped\n", ended


def test_ctrl_c_stops_attention():
    done, ended = stopped("headproof.scaled_dot_product_attention(q, q, q, softcap=1.0)")
    assert done, ended


def test_ctrl_c_stops_attention_on_one_thread():
    done, ended = stopped("headproof.scaled_dot_product_attention(q, q, q, threads=1)")
    assert done, ended


def test_ctrl_c_stops_the_gradients():
    done, ended = stopped(
        "headproof.attention_backward(q, q, q, q, np.zeros((1, 4, 60_000), np.float32), q + 1)")
    assert done, ended


def test_ctrl_c_stops_the_cache():
    done, ended = stopped("c = headproof.KvCache(1, 4, 64, 64); c.append(q, q); c.attend(q)")
    assert done, ended


def test_what_a_handler_raises_comes_out():
    class Alarm(Exception):
        pass

    def handler(*_):
        raise Alarm("now")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        q = np.zeros((1, 4, 40_000, 64), np.float32)
        attention(q, q, q)
    except Alarm as alarm:
        assert str(alarm) == "now"
    else:
        raise AssertionError("the handler's exception was lost")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


q = np.zeros((1, 2, 6000, 64), np.float32)
head = Head(256, 256, 1, Generator())
x = np.zeros((60_000, 1, 256), np.float32)


@pytest.mark.parametrize("work", [lambda: attention(q, q, q, threads=1), lambda: head.key(x),
                                  lambda: Generator().randn(4_000_000),
                                  lambda: Generator().randperm(4_000_000)],
                         ids=["attention", "head.key", "randn", "randperm"])
def test_other_threads_run_meanwhile(work):
    counted, done = [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = time.perf_counter()
    work()
    after = time.perf_counter()
    done.set()
    thread.join()
    # Without the GIL's release there would be none but at the ends.
    inside = [moment for moment in counted if before < moment < after]
    assert len(inside) > 5 and inside[len(inside) // 2] - before > 0.2 * (after - before)


def test_many_threads_get_the_same_bits():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 2, 130, 16)).astype(np.float32) for _ in range(3))
    out, lse = attention(q, k, v, is_causal=True, return_lse=True)
    gradients = attention_backward(q, k, v, out, lse, q, is_causal=True)
    cache = KvCache(2, 2, 16, 16)
    cache.append(k, v)
    failed = []

    def work():
        for _ in range(20):
            again = attention(q, k, v, is_causal=True)
            back = attention_backward(q, k, v, out, lse, q, is_causal=True)
            if not ((again == out).all() and (cache.attend(q) == out).all()
                    and all((a == b).all() for a, b in zip(back, gradients))):
                failed.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_importing_starts_no_thread_and_fork_is_safe_before_the_first_call():
    code = ("import headproof, os, numpy as np, sys\n"
            "pid = os.fork()\n"
            "q = np.ones((1, 8, 300, 64), np.float32)\n"
            "out = headproof.scaled_dot_product_attention(q, q, q)\n"
            "if pid == 0: os._exit(0 if (abs(out - 1) < 1e-5).all() else 1)\n"
            "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=120).returncode == 0


def test_a_child_of_fork_goes_on_calling():
    code = ("import headproof, os, numpy as np\n"
            "q = np.random.default_rng(0).standard_normal((1, 8, 200, 64), np.float32)\n"
            "for n in range(20):\n"
            "    out = headproof.scaled_dot_product_attention(q, q, q)\n"
            "    pid = os.fork()\n"
            "    if pid == 0:\n"
            "        same = (headproof.scaled_dot_product_attention(q, q, q) == out).all()\n"
            "        os._exit(0 if same else 1)\n"
            "    assert os.waitpid(pid, 0)[1] == 0\n")
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=120).returncode == 0
