"""Answers that try to get a mark that they did not earn, or to do harm. Each is the cell of `split_heads`.

Name -> (the cell, what the reason says). What would be a success raises, or gives back, something with LEAK in it.
"""

RIGHT = "x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)"
ANSWER = "def split_heads(x, num_heads):\n"


def answer(*lines):
    return ANSWER + "".join(f"    {line}\n" for line in lines)


DONE_AFTER = r"it had not finished after 1\.5 seconds"
ENDED = r"it ended Python|it crashed Python"

TIME = {
    "an endless loop": (answer("while True:", "    pass"), DONE_AFTER),
    "an endless loop in a cell": ("while True:\n    pass\n" + answer(f"return {RIGHT}"), DONE_AFTER),
    "sleep for ever": ("import time\n" + answer("time.sleep(1e6)"), DONE_AFTER),
    "signals switched off": (
        "import signal\nfor number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n    except OSError: pass\n"
        + answer("while True:", "    pass"),
        DONE_AFTER,
    ),
    "errors caught for ever": (
        answer("while True:", "    try:", "        while True: pass", "    except BaseException: pass"),
        DONE_AFTER,
    ),
    "a hostile error message": (
        "class Words(Exception):\n    def __str__(self):\n        while True: pass\n" + answer("raise Words"),
        DONE_AFTER,
    ),
    "a lock that nobody opens": ("import threading\n" + answer("threading.Semaphore(0).acquire()"), DONE_AFTER),
}

RESOURCES = {
    "a fork bomb": ("import os\n" + answer("while True:", "    os.fork()"), "PermissionError"),
    "a fork bomb in a cell": ("import os\nwhile True:\n    os.fork()\n", "There is no `split_heads`"),
    "programs": ("import subprocess\n" + answer("subprocess.run(['sleep', '100'])"), "PermissionError"),
    "a shell": ("import os\n" + answer("return [os.system('ls'), 'LEAK'][0]"), "gives back an? int"),
    "a thread bomb": (
        "import threading, time\n"
        + answer("while True:", "    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()"),
        rf"can't start new thread|MemoryError|{DONE_AFTER}|{ENDED}",
    ),
    "a memory bomb": (answer("import torch", "return torch.ones(1 << 36)"), "RuntimeError"),
    "a memory bomb in small pieces": (
        answer("held = []", "while True:", "    held.append(bytearray(1 << 24))"),
        rf"MemoryError|{DONE_AFTER}|{ENDED}",
    ),
    "a full disk": (
        answer("for n in range(10**6):", "    with open(f'{n}', 'wb') as out: out.write(bytes(1 << 22))"),
        "OSError",
    ),
    "a large file": (answer("with open('x', 'wb') as out:", "    out.write(bytes(1 << 28))"), rf"OSError|{ENDED}"),
    "files in memory": ("import os\n" + answer("os.memfd_create('x')"), "PermissionError"),
    "huge prints": (answer("for n in range(10**3):", "    print('x' * 10**5)", "return None"), rf"None|{DONE_AFTER}"),
    "deep recursion": (answer("return split_heads(x, num_heads)"), "RecursionError"),
    "recursion without a limit": (
        "import sys\nsys.setrecursionlimit(10**9)\n" + answer("return [split_heads(x, num_heads)]"),
        rf"RecursionError|MemoryError|{ENDED}|{DONE_AFTER}",
    ),
    "a huge result": (answer("return x.new_zeros(1 << 25)"), rf"can't be sent|{DONE_AFTER}"),
    "an endless result": (
        "class Endless(list):\n    def __len__(self): return 3\n    def __iter__(self):\n        while True: yield 1\n"
        + answer("return Endless()"),
        rf"{DONE_AFTER}|MemoryError|{ENDED}",
    ),
    "a bottomless result": (
        answer("deep = []", "for _ in range(10**5): deep = [deep]", "return deep"),
        "can't be sent",
    ),
    "a result that holds itself": (answer("own = []", "own.append(own)", "return own"), "can't be sent"),
    "a long error message": (answer("raise ValueError('x' * 10**7)"), "ValueError"),
}

ENDING = {
    "os._exit": ("import os\n" + answer("os._exit(0)"), ENDED),
    "os._exit in a cell": ("import os\nos._exit(0)\n" + answer(f"return {RIGHT}"), ENDED),
    "sys.exit": ("import sys\n" + answer("sys.exit(0)"), "SystemExit"),
    "sys.exit in a cell": ("import sys\nsys.exit(0)\n" + answer(f"return {RIGHT}"), "There is no `split_heads`|SystemExit"),
    "an interrupt": (answer("raise KeyboardInterrupt"), "KeyboardInterrupt"),
    "a crash": ("import ctypes\n" + answer("return ctypes.string_at(0)"), ENDED),
    "an abort": ("import os\n" + answer("os.abort()"), rf"{ENDED}|{DONE_AFTER}"),
    "killing the parent": ("import os\n" + answer("os.kill(os.getppid(), 9)", "return 'not killed'"), "gives back a str"),
    "killing everybody": ("import os\n" + answer("os.kill(-1, 9)", "return 'not killed'"), rf"{ENDED}|a str|Error"),
    "killing process 1": ("import os\n" + answer("os.kill(1, 9)", "return 'not killed'"), rf"{ENDED}|gives back a str"),
    "closing every file": ("import os\n" + answer("os.closerange(0, 1024)", f"return {RIGHT}"), ENDED),
    "an error while packing": (
        "class Odd(dict):\n    def items(self): raise RuntimeError('no')\n" + answer("return Odd(a=1)"), ".",
    ),
}  # fmt: skip

LOOKING = """
import os
def look(words):
    for folder, inner, files in os.walk("/"):
        inner[:] = [one for one in inner if one not in ("usr", "proc", "dev", "lib", "bin", "include", "share")]
        for file in files:
            try:
                text = open(os.path.join(folder, file), errors="replace").read(200_000)
            except OSError:
                continue
            for word in words:
                if word in text:
                    raise RuntimeError(f"LEAK {word} in {folder}/{file}")
"""

SPYING = {
    "reading the answers": (
        LOOKING + answer("look(['BEGIN ' + 'SOLUTION', 'FunctionExercise', '_split(x: Ten' + 'sor'])", "return None"),
        "None",
    ),
    "importing the judge": (
        answer(
            "from course_lib.exercises.lesson_04.split_heads import split_heads as right",
            "return right(x, num_heads)",
        ),
        ".",
    ),
    "importing the catalogue": (
        answer(
            "from course_lib.exercises.catalogue import EXERCISES",
            "return EXERCISES.get('split_heads').solution(x, num_heads)",
        ),
        "is not there in grading",
    ),
    "importing the grader": (
        answer("from course_grader.judging import judge_notebook", "return judge_notebook(x, num_heads)"),
        "is not there in grading",
    ),
    "reading a neighbour": (
        LOOKING
        + "open('mine.txt', 'w').write('a neighbour ' + 'was here')\n"
        + answer(
            "assert os.listdir() in (['mine.txt'], []), 'LEAK'",
            "os.listdir() and os.remove('mine.txt')",
            "look(['a neighbour ' + 'was here', 'ipynb'])",
        ),
        "None",
    ),
    "looking at processes": (
        "import os\n" + answer("assert not os.listdir('/proc'), 'LEAK'", "return [os.getpid(), os.getppid()]"),
        "gives back a list",
    ),
    "the environment": (
        "import os\n"
        + answer(
            "assert set(os.environ) <= set('HOME LANG MKL_NUM_THREADS OMP_NUM_THREADS PATH PWD LC_CTYPE TMPDIR'.split()), 'LEAK'"
        ),
        "None",
    ),
    "expected values in memory": (
        "import gc, torch\n"
        + answer(
            "want = (x.shape[1], num_heads, x.shape[0], x.shape[2] // num_heads)",
            "for one in gc.get_objects():",
            "    if isinstance(one, torch.Tensor) and tuple(one.shape) == want: return one",
        ),
        "None",
    ),
    "expected values in frames": (
        "import sys\n"
        + answer(
            "frame = sys._getframe()",
            "while frame:",
            "    for key, value in frame.f_locals.items():",
            "        if 'expect' in key or 'reference' in key: raise RuntimeError('LEAK')",
            "    frame = frame.f_back",
        ),
        "None",
    ),
    "the network": (
        "import socket\n" + answer("socket.create_connection(('1.1.1.1', 53), 1)", "raise RuntimeError('LEAK')"),
        "PermissionError|OSError",
    ),
    "a name server": (
        "import socket\n" + answer("socket.getaddrinfo('example.org', 80)", "raise RuntimeError('LEAK')"),
        "gaierror|PermissionError|OSError",
    ),
    "writing outside": (
        "import os, sys\n"
        + answer(
            "for place in ['/x', '/dev/x', '/dev/shm/x', '/sandbox/guest/student.py', sys.prefix + '/x.pth', os.__file__]:",
            "    try: open(place, 'a').write('')",
            "    except OSError: continue",
            "    raise RuntimeError('LEAK ' + place)",
        ),
        "None",
    ),
    "new namespaces": (
        "import ctypes\n"
        + answer(
            "libc = ctypes.CDLL(None)",
            "calls = [libc.unshare(0x10020000), libc.umount2(b'/proc', 2), libc.mount(b'x', b'/proc', b'proc', 0, None)]",
            "assert all(calls), 'LEAK'",
        ),
        "None",
    ),
    "another process's memory": (
        "import ctypes\n" + answer("assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) != 0, 'LEAK'"),
        "None",
    ),
}

EQUAL = """
class Equal:
    dtype = shape = device = None
    def __eq__(self, other): return True
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __bool__(self): return True
"""

FORGED = """
import os, struct, json
def forge(message, blob=b""):
    text = json.dumps(message).encode()
    for end in range(3, 64):
        try: os.write(end, struct.pack(">II", len(text), len(blob)) + text + blob)
        except OSError: pass
"""

FOOLING = {
    "equal to everything": (EQUAL + answer("return Equal()"), "gives back a Equal"),
    "a tensor that is equal to everything": (
        "import torch\nclass Sly(torch.Tensor):\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
        "        return True if 'equal' in str(f) or 'close' in str(f) else super().__torch_function__(f, types, args, kwargs or {})\n"
        + answer("return torch.zeros(x.shape[1], num_heads, x.shape[0], x.shape[2] // num_heads, dtype=x.dtype).as_subclass(Sly)"),
        "it should be",
    ),
    "a patched torch": (
        "import torch\ntorch.equal = torch.allclose = lambda *a, **k: True\n"
        "torch.isclose = lambda a, b, **k: torch.ones_like(a, dtype=torch.bool)\ntorch.Tensor.__eq__ = lambda a, b: True\n"
        + answer("return x"),
        "shape",
    ),
    "a patched isinstance": (
        "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.all = builtins.any = lambda *a: True\n"
        + answer("return 'passed'"),
        ".",
    ),
    "switched off asserts": (
        "import sys\ncheck = progress = lambda *a: True\n__debug__ if True else 0\nsys.flags = None\n" + answer("return x"),
        rf"shape|can't be sent|{ENDED}",
    ),
    "a patched course": (
        "import course_lib.exercises, course_lib\ncourse_lib.exercises.check = lambda *a: True\n"
        "course_lib.exercises.checking = None\nimport sys\nfor name in [n for n in sys.modules if 'guest' in n]:\n"
        "    vars(sys.modules[name]).update(_same=lambda *a: True, describe_error=lambda *a: {})\n" + answer("return x"),
        "shape",
    ),
    "a patched pytest": (
        "import sys, types\nsys.modules['pytest'] = types.SimpleNamespace(raises=None, approx=lambda *a: True)\n"
        + answer("return x"),
        "shape",
    ),
    "input transformers": (
        "shell = get_ipython()\nshell.input_transformers_post.append(lambda lines: ['pass'])\n" + answer("return x"),
        "There is no|shape",
    ),
    "a hook on import": (
        "import sys, builtins\nsys.meta_path.insert(0, type('F', (), {'find_spec': staticmethod(lambda *a: 1 / 0)})())\n"
        "builtins.__import__ = lambda *a, **k: 1 / 0\n" + answer("return x"),
        rf"shape|ZeroDivision|{ENDED}",
    ),
    "a trace function": (
        "import sys\nsys.settrace(lambda *a: (_ for _ in ()).throw(SystemExit))\n" + answer("return x"), ".",
    ),
    "a forged verdict": (
        FORGED + answer("forge({'result': {'dict': [['passed', True]]}})", "return x"), "valid answer|shape|gives back",
    ),
    "a forged end": (FORGED + answer("forge({'ended': 0})", "return x"), "."),
    "a forged beginning": (
        FORGED + "forge({'dict': [['loaded', {'dict': [['split_heads', 'function']]}]]})\nimport time; time.sleep(0.1)\n", ".",
    ),
    "forged noise": (
        "import os\n" + answer("for end in range(3, 64):", "    try: os.write(end, b'\\xff' * 4096)", "    except OSError: pass", f"return {RIGHT}"),
        "valid answer|larger",
    ),
    "forged output": (
        answer("print('split_heads: passed')", "print('{\"points\": 99}', flush=True)", "import os", "os.write(1, b'passed')", "return x"),
        "shape",
    ),
    "a forger in the background": (
        FORGED + "import threading, time\n"
        "threading.Thread(target=lambda: [(time.sleep(0.001), forge({'dict': [['result', True]]})) for _ in range(2000)], daemon=True).start()\n"
        + answer("import time; time.sleep(0.05)", "return x"),
        ".",
    ),
    "a patched way out": (
        "import ctypes, json\nctypes.string_at = lambda *a: b'junk'\njson.dumps = lambda *a, **k: '\"passed\"'\n"
        + answer("return x"),
        ".",
    ),
    "a pickle": (
        "import pickle\nclass Bomb:\n    def __reduce__(self): return (exec, ('raise SystemExit',))\n" + answer("return Bomb()"),
        "gives back a Bomb",
    ),
    "a table of the public check": (
        "import torch\ndef numbers(*shape, seed=0):\n"
        "    g = torch.Generator().manual_seed(seed + 17 * len(shape) + sum(shape))\n"
        "    return torch.randn(*shape, generator=g, dtype=torch.float64)\n"
        "TABLE = {(2, 5, 21): 3, (3, 4, 10): 2}\n"
        "RESULTS = {size: numbers(*size).unflatten(2, (heads, -1)).permute(1, 2, 0, 3) for size, heads in TABLE.items()}\n"
        + answer("return RESULTS[tuple(x.shape)]"),
        "KeyError",
    ),
    "a lazy result": (answer("return (row for row in x)"), "gives back a generator"),
    "a tensor without numbers": (answer("return x.new_empty((x.shape[1], num_heads, x.shape[0], x.shape[2] // num_heads), device='meta')"), "gives back a"),
    "a complex tensor": (answer("import torch", f"return torch.complex({RIGHT}, {RIGHT})"), "gives back a"),
    "numbers that are none": (answer(f"return ({RIGHT}) * float('nan')"), "nan"),
    "an input that is changed": (answer("x.zero_()", f"return {RIGHT}"), "changes its argument"),
    "a name of the course": ("from course_lib.attention import attend as split_heads\n", "There is no `split_heads`"),
    "an emptied notebook": (answer(f"return {RIGHT}") + "globals().clear()\n", "not there any more"),
    "hostile words": (answer("raise ValueError('<script>alert(1)</script>\\u202e=cmd()')"), "ValueError"),
    "a class with a strange name": (
        "Strange = type('<b>\\u202e' + 'x' * 10**5, (), {})\n" + answer("return Strange()"), "gives back a",
    ),
    "a lowered guard": (
        "import resource\n" + answer("resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "return None"), "ValueError|PermissionError|Error",
    ),
}  # fmt: skip

CASES = {**TIME, **RESOURCES, **ENDING, **SPYING, **FOOLING}
