"""Answers that change Python or PyTorch around them, so that a later step would believe or do something else.

Name -> (the cell of `split_heads`, what the reason says), as in `hostile_answers`.
"""

from tests.grader.hostile_answers import ANSWER, DONE_AFTER, ENDED, FORGED, RIGHT, answer

WRONG = "x.reshape(x.shape[1], num_heads, x.shape[0], -1)"  # the right shape
REFUSED = r"elements differ|should be|gives back|can't be sent|valid answer|no `split_heads`"
TRUE = '{"result": True, "changed": []}'

AROUND_TORCH = {
    "a subclass that dispatches": (
        "import torch\nclass Sly(torch.Tensor):\n    @classmethod\n"
        "    def __torch_dispatch__(cls, f, types, args=(), kwargs=None): return True\n"
        + answer(f"return torch.Tensor._make_subclass(Sly, {WRONG})"),
        rf"{REFUSED}|{ENDED}|{DONE_AFTER}|Error",
    ),
    "a shape of one's own": (
        "import torch\nclass Sly(torch.Tensor):\n    shape = property(lambda self: torch.Size((5, 3, 2, 7)))\n"
        "    def size(self, *a): return self.shape\n" + answer("return x.as_subclass(Sly)"),
        REFUSED,
    ),
    "a patched numpy()": (
        "import torch\ntorch.Tensor.numpy = lambda self, *a, **k: 1\ntorch.Tensor.detach = lambda self: self\n"
        + answer(f"return {WRONG}"),
        rf"{REFUSED}|Error",
    ),
    "a default device": ("import torch\ntorch.set_default_device('meta')\n" + answer(f"return {WRONG}"), "."),
    "half precision everywhere": (
        "import torch\ntorch.set_default_dtype(torch.float16)\ntorch.Tensor.double = lambda self: self\n"
        + answer(f"return {WRONG}"),
        REFUSED,
    ),
    "a mode that stays": (
        "import torch\nfrom torch.overrides import TorchFunctionMode\nclass Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, types, args=(), kwargs=None): return True\nMode().__enter__()\n"
        + answer(f"return {WRONG}"),
        rf"{REFUSED}|Error|{ENDED}",
    ),
    "a patched seed": (
        "import torch\nclass Told:\n    def manual_seed(self, seed): raise RuntimeError(f'seed {seed}')\ntorch.default_generator = Told()\n"
        + answer(f"return {WRONG}"),
        r"RuntimeError: seed \d\.",  # that of PyTorch's own random numbers, not that of the inputs
    ),
    "a resized input": (answer("x.resize_(0)", f"return {WRONG}"), "."),
    "storage beyond the tensor": (
        answer("import torch", f"return torch.as_strided({WRONG}, (5, 3, 2, 7), (1, 1, 1, 1), 10**6)"), "Error|should be",
    ),
    "an expanded result of one element": (answer("return x.new_zeros(1).expand(1 << 40)"), "can't be sent|MemoryError|Error"),
    "ten thousand small results": (answer("return [x.new_zeros(1) for _ in range(10**4)]"), rf"can't be sent|gives back|{DONE_AFTER}"),
    "sparse": (answer(f"return ({WRONG}).to_sparse()"), rf"{REFUSED}|Error"),
    "quantized": (answer("import torch", f"return torch.quantize_per_tensor(({WRONG}).float(), 0.1, 0, torch.qint8)"), rf"{REFUSED}|Error"),
    "a nested tensor": (answer("import torch", "return torch.nested.nested_tensor([x[0], x[1][:2]])"), rf"{REFUSED}|Error"),
    "threads without end in torch": ("import torch\ntorch.set_num_threads(4096)\n" + answer(f"return ({WRONG}) @ x.new_ones(7, 7)"), "."),
}  # fmt: skip

AROUND_PYTHON = {
    "at exit": (FORGED + f"import atexit\natexit.register(lambda: forge({TRUE}))\n" + answer("raise SystemExit"), "SystemExit|valid"),
    "a handler of a timer": (
        FORGED + "import signal\n"
        f"signal.signal(signal.SIGALRM, lambda *a: forge({TRUE}))\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        + answer("import time; time.sleep(0.05)", f"return {WRONG}"),
        ".",
    ),
    "a finalizer": (
        FORGED + f"class Last:\n    def __del__(self): forge({TRUE})\n" + answer("Last()", f"return {WRONG}"), ".",
    ),
    "a callback of the garbage collector": (
        FORGED + f"import gc\ngc.callbacks.append(lambda *a: forge({TRUE}))\n" + answer("gc.collect()", f"return {WRONG}"), ".",
    ),
    "an audit hook": (
        "import sys\nsys.addaudithook(lambda event, a: (_ for _ in ()).throw(SystemExit) if event == 'compile' else None)\n"
        + answer(f"return {WRONG}"),
        ".",
    ),
    "a profiler": ("import sys\nsys.setprofile(lambda *a: None if a[1] == 'call' else True)\n" + answer(f"return {WRONG}"), REFUSED),
    "a patched exec": (
        "import builtins\nbuiltins.exec = builtins.compile = builtins.getattr = lambda *a, **k: True\n" + answer(f"return {WRONG}"),
        rf"{REFUSED}|{ENDED}|Error|could not be run|no valid",
    ),
    "a patched reader": (
        "import json\nloads = json.loads\n"
        "json.loads = lambda text, **k: {'do': 'call', 'with': {'name': 'merge_heads', 'arguments': [], 'seed': 0}}\n"
        + answer(f"return {WRONG}"),
        ".",
    ),
    "a patched channel": (
        "import gc\nfor one in gc.get_objects():\n"
        "    if type(one).__name__ == 'Channel':\n        type(one).send = lambda self, message, *a: None\n"
        + answer(f"return {WRONG}"),
        rf"{REFUSED}|{DONE_AFTER}|could not be run|was left out",
    ),
    "another main": (
        "import sys, types\nsys.modules['__main__'] = types.SimpleNamespace(split_heads=lambda *a: True)\n" + answer(f"return {WRONG}"),
        REFUSED,
    ),
    "a namespace that answers for all": (
        "class Names(dict):\n    def __contains__(self, name): return True\n    def __getitem__(self, name): return len\n"
        "import sys\ntry: sys.modules['__main__'].__dict__.update(Names(split_heads=len))\nexcept Exception: pass\n",
        rf"{REFUSED}|Error",
    ),
    "a callable with a false name": (
        "class Sly:\n    __name__ = 'split_heads'\n    __class__ = property(lambda self: bool)\n"
        "    def __call__(self, *a): return self\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        "split_heads = Sly()\n",
        rf"{REFUSED}|Error",
    ),
    "a class in place of a function": ("class split_heads(list):\n    def __init__(self, *a): super().__init__([True])\n", "."),
    "a poisoned line cache": (
        "import linecache\nlinecache.getline = linecache.getlines = lambda *a: ['passed ' * 10**6]\n" + answer("raise ValueError('no')"),
        "Error",
    ),
    "an error of another kind": (
        "class NotImplementedError(Exception):\n    def __str__(self): return 'passed'\n    __module__ = 'passed'\n" + answer("raise NotImplementedError"),
        ".",
    ),
    "a group of groups of errors": (
        answer("error = ValueError('x')", "for _ in range(10**4): error = ExceptionGroup('y' * 99, [error])", "raise error"), ".",
    ),
    "an error that raises when it is read": (
        "class Bad(Exception):\n    args = property(lambda self: 1 / 0)\n    __traceback__ = property(lambda self: 1 / 0)\n"
        "    def __str__(self): raise SystemExit\n" + answer("raise Bad"),
        ".",
    ),
    "an integer of ten million digits": (answer("return 1 << (33 * 10**6)"), rf"can't be sent|gives back|{DONE_AFTER}|Error"),
    "a word of lone surrogates": (answer("return '\\ud800' * 10**5"), rf"can't be sent|gives back|{REFUSED}"),
    "a key that is no text": (answer("return {(1, 2): x, None: x, float('nan'): x}"), rf"{REFUSED}|Error"),
    "a regular expression without end": ("import re\n" + answer("re.match('(a+)+$', 'a' * 60 + 'b')"), DONE_AFTER),
    "a map of all memory": ("import mmap\n" + answer("held = [mmap.mmap(-1, 1 << 28) for _ in range(400)]", "for one in held: one[::4096] = b'x' * (len(one) // 4096)"), rf"Error|{ENDED}|{DONE_AFTER}"),
    "socket pairs without end": ("import socket\n" + answer("held = []", "while True: held.append(socket.socketpair())"), rf"Error|{ENDED}|{DONE_AFTER}"),
    "an answer that learns from call to call": (
        "seen = []\n" + answer("seen.append(x)", f"return seen[-2] if len(seen) > 1 else {WRONG}"), REFUSED,
    ),
    "a defined-later helper that is the course's": (
        "from course_lib.attention import *\n" + ANSWER + "    return split(x, num_heads)\n", "Error|is not there",
    ),
    "tomorrow's answer": (f"import time\n{answer(f'return {RIGHT} if time.time() < 0 else {WRONG}')}", REFUSED),
}  # fmt: skip

CASES = {**AROUND_TORCH, **AROUND_PYTHON}
