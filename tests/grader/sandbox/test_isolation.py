"""The command lines that isolate a process, what they hide, and what is said where nothing can isolate it."""

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from course_grader.sandbox import Isolation, NoSandbox, ResourceLimits, Sandbox, bubblewrap, choose_isolation
from course_grader.sandbox.bubblewrap import paths_to_cover, visible_folders
from course_grader.sandbox.guest import GuestSettings
from course_grader.sandbox.isolation import container_arguments
from course_grader.submissions import find_submissions
from tests.grader.sandbox.session_requests import call, load

SETTINGS = Sandbox(Isolation("bubblewrap"), ResourceLimits()).guest_settings()


@pytest.fixture
def path(monkeypatch, tmp_path):
    """An empty folder of programs, the only one on the path."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name, text):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return put


def test_no_bubblewrap(path):
    with pytest.raises(NoSandbox) as error:
        choose_isolation()
    assert str(error.value) == (
        "Students' code can't be isolated here: there is no bwrap on the path. Install bubblewrap (on Debian and "
        "Ubuntu: apt install bubblewrap). Or give --image with docker or podman. Without a sandbox students' code "
        "would run as you, with your files, your network and your passwords in reach. Say --unsafe only for code "
        "that you would run yourself."
    )
    assert choose_isolation(unsafe=True) == Isolation("nothing")


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Failed to make / slave: Permission denied", "`--security-opt apparmor=unconfined"),
        ("setting up uid map: Permission denied", "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", "a profile of AppArmor that says `userns,`"),
        ("No permissions to create new namespace, likely because", "`--security-opt seccomp=unconfined`"),
        ("Creating new namespace failed: Operation not permitted", "`--security-opt seccomp=unconfined`"),
        ("Can't mkdir parents for /home/x: Permission denied", "grade as the owner of these folders"),
        ("Can't find source path /home/x/.venv: Permission denied", "grade as the owner of these folders"),
        ("execvp /home/x/.venv/bin/python: Permission denied", "grade as the owner of these folders"),
        ("something new", "its administrator has to allow user namespaces here"),
    ],
)
def test_each_message_of_bubblewrap_gets_its_remedy(path, said, remedy):
    path("bwrap", f'#!/bin/sh\necho "bwrap: {said}" >&2\nexit 1\n')
    with pytest.raises(NoSandbox) as error:
        choose_isolation()
    assert f"bwrap does not work (bwrap: {said}): " in str(error.value) and remedy in str(error.value)
    assert "Install bubblewrap" not in str(error.value)


def test_bubblewrap_that_cannot_start(path):
    path("bwrap", "no program")
    with pytest.raises(NoSandbox, match=r"bwrap could not be started \(.*Exec format error"):
        choose_isolation()


def test_a_bubblewrap_that_is_too_old(path):
    path("bwrap", "#!/bin/sh\necho bubblewrap 0.6.1\n")
    with pytest.raises(NoSandbox, match=r"bubblewrap is 0\.6\.1, which is too old\. Install 0\.7\.0 or newer\."):
        choose_isolation()


# The first version of each option, from the tags of its repository; Ubuntu 22.04 has 0.6.1, Debian 12 has 0.8.0.
SINCE = {
    **dict.fromkeys(("--hostname", "--remount-ro", "--setenv", "--symlink", "--ro-bind", "--tmpfs"), (0, 1, 2)),
    **dict.fromkeys(("--proc", "--dev", "--chdir", "--uid", "--gid", "--unshare-user"), (0, 1, 2)),
    **dict.fromkeys(("--new-session", "--unshare-all"), (0, 1, 7)),
    "--die-with-parent": (0, 1, 8),
    **dict.fromkeys(("--cap-drop", "--as-pid-1"), (0, 2, 0)),
    "--clearenv": (0, 5, 0),
    "--size": (0, 7, 0),
}


def test_the_oldest_bubblewrap_has_every_option():
    used = {word for single in (False, True) for word in bubblewrap.arguments(["/"], True, single=single)}
    used = {word for word in used if word.startswith("--")}
    assert used == SINCE.keys() and max(SINCE.values()) == bubblewrap.OLDEST
    if program := shutil.which("bwrap"):
        known = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout.split()
        assert used <= {*known}


@pytest.mark.parametrize(
    ("says", "program", "changelog", "named"),
    [
        ("bubblewrap 0.8.0", "/usr/bin/bwrap", None, "bubblewrap 0.8.0 may have the hole CVE-2026-87766"),
        ("bubblewrap 0.11.1", "/usr/bin/bwrap", b"bubblewrap (0.11.1-1)", "bubblewrap 0.11.1 may have"),
        ("bubblewrap 0.9.0", "/usr/bin/bwrap", b"  * SECURITY UPDATE: CVE-2026-87766", None),
        ("bubblewrap 0.9.0", "/opt/own/bwrap", b"  * SECURITY UPDATE: CVE-2026-87766", "bubblewrap 0.9.0 may have"),
        ("bubblewrap 0.12.0", "/opt/own/bwrap", None, None),
        ("bubblewrap 1.0", "/usr/bin/bwrap", None, None),
        ("", "/usr/bin/bwrap", None, "This bubblewrap, which doesn't say its version, may have"),
    ],
)
def test_the_hole_is_named_unless_it_is_closed(monkeypatch, tmp_path, says, program, changelog, named):
    if changelog:
        (tmp_path / "changelog.Debian.gz").write_bytes(gzip.compress(changelog))
    monkeypatch.setattr(bubblewrap, "CHANGELOGS", str(tmp_path / "changelog*"))
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: program if name == "bwrap" else None)
    monkeypatch.setattr(bubblewrap.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 0, says))
    warning = Isolation("bubblewrap").warning()
    assert warning is None if named is None else warning.startswith(named) and "update it, or give --image" in warning
    assert Isolation("docker", image="x").warning() is Isolation("nothing").warning() is None


def test_engines(path):
    with pytest.raises(NoSandbox, match="neither docker nor podman is there"):
        choose_isolation(image="course-grade")
    path("podman", "")
    assert choose_isolation(image="course-grade") == Isolation("podman", forks=False, image="course-grade")
    path("docker", "")
    assert choose_isolation(image="course-grade").name == "docker"


@pytest.mark.parametrize(("system", "words"), [("win32", "run `course grade` in WSL"), ("darwin", "is for Linux only")])
def test_other_systems(monkeypatch, system, words):
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(NoSandbox, match=words):
        choose_isolation()


def test_it_can_be_imported_everywhere():
    """On a system without `fork`, limits, sockets of the system and `poll`, choose_isolation() is there to say so."""
    code = (
        "import os, select, signal, socket, sys\nfrom unittest.mock import MagicMock\n"
        "for module, name in [(os, 'fork'), (os, 'killpg'), (select, 'poll'), (select, 'POLLIN'), (signal, 'SIGKILL'),"
        " (socket, 'AF_UNIX'), (socket, 'send_fds')]: delattr(module, name)\n"
        "sys.modules['resource'] = None\n"
        "for name in ('torch',): sys.modules[name] = MagicMock()\n"  # slow
        "import course_grader.sandbox\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def pairs(words, *names):
    return [tuple(words[at : at + 3]) for at, word in enumerate(words) if word in names]


def test_the_arguments():
    words = Isolation("bubblewrap").command("fork_server", SETTINGS)
    for word in ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"):
        assert word in words
    assert "--share-net" not in words and "--bind" not in words and "--dev-bind" not in words
    assert ("--remount-ro", "/", "--chdir") in pairs(words, "--remount-ro")
    assert words.index("--cap-drop") + 1 == words.index("ALL")
    assert words[-4:-2] == ["-I", "-c"] and GuestSettings(**json.loads(words[-1])) == SETTINGS
    alone = Isolation("bubblewrap").command("single_run", SETTINGS)
    assert "--as-pid-1" in alone and "--as-pid-1" not in words
    assert Isolation("bubblewrap").environment().keys() == {
        "HOME", "TMPDIR", "LANG", "PATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    }  # fmt: skip


def test_only_what_python_needs_is_shown():
    """Of a prefix its libraries and programs: `python -m venv .` makes the course's own folder a prefix."""
    for prefix in {Path(sys.prefix), Path(sys.base_prefix)}:
        assert not any(
            str(prefix).startswith(folder.rstrip("/") + "/") or str(prefix) == folder for folder in visible_folders()
        )
    assert not any(Path(folder) in (Path("/usr"), Path("/"), Path.home()) for folder in visible_folders())


class Place:
    """A copy of the course in a folder that is shown, as in site-packages, beside a folder with what was handed in."""

    def __init__(self, folder, monkeypatch):
        self.site = folder / "real" / "a site"
        self.course, self.grader = self.site / "course_lib", self.site / "course_grader"
        self.handed_in = self.site / "handed in"
        for one in (self.course, self.grader, self.handed_in):
            one.mkdir(parents=True)
            (one / "secret.txt").write_text("secret")
        (self.site / "other.txt").write_text("other")
        (folder / "link").symlink_to("real")
        self.link = folder / "link" / "a site"  # the same folder under another name
        monkeypatch.setattr(bubblewrap, "COURSE", self.course)
        monkeypatch.setattr(bubblewrap, "GRADER", self.grader)
        real = visible_folders()
        monkeypatch.setattr(bubblewrap, "visible_folders", lambda: [*real, str(self.site), str(self.link)])


@pytest.fixture
def place(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp is another one in the sandbox
        yield Place(Path(folder), monkeypatch)


LOOK = """
import os, sys
for path in sys.argv[1:]:
    try: found = sorted(os.listdir(path))
    except OSError as error: found = type(error).__name__
    try: open(path + "/left", "w"); found = "can be written"
    except OSError: pass
    print(found)
"""


@pytest.mark.xdist_group("sandbox")
@pytest.mark.usefixtures("isolation")
def test_hidden_folders_are_empty(place):
    """Under each name by which they could be reached, and nobody can write there, for the next one to find."""
    hidden = ("course_lib", "course_grader", "handed in")
    looked = [*(folder / name for folder in (place.site, place.link) for name in hidden), place.site]
    start = bubblewrap.arguments([str(place.link / "handed in")], False)
    run = [*start, sys.executable, "-I", "-c", LOOK, *map(str, looked)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    left = "['course_grader', 'course_lib', 'handed in', 'other.txt']"
    assert done.stdout.splitlines() == ["[]"] * 6 + [left], done.stderr
    choose_isolation(
        hidden=[place.handed_in, place.site.parent, place.site / ".." / "not there"]
    )  # what isn't shown needs no cover


@pytest.mark.xdist_group("sandbox")
@pytest.mark.usefixtures("isolation")
@pytest.mark.parametrize("mode", [0o711, 0o700])
@pytest.mark.parametrize("user", [0, 65534])
def test_closed_folders_above_the_class_and_the_temporary_one(mode, user):
    """As root and as another user, whose Python and copy of the sandbox's code lie where all may read."""
    python = shutil.which("python3", path="/usr/bin")
    if os.geteuid() != 0 or python is None or shutil.which("setpriv") is None:
        pytest.skip("needs root, setpriv and the system's own Python")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        home = Path(folder) / "home"
        for part in ("class/handed_in", "tmp", "site/course_grader", "site/course_lib"):
            (home / part).mkdir(parents=True)
        shutil.copytree(bubblewrap.GUEST.parent, home / "site/course_grader/sandbox")
        shutil.copytree(bubblewrap.ANSWERING, home / "site/course_lib/exercises/answering")
        (home / "site/course_lib/__init__.py").touch()
        passable = mode == 0o711  # then the folders above may be another's, which one can pass and not read
        for path in ([] if passable else [folder, home]) + [*home.rglob("*")]:
            os.chown(path, user, user)
        for path in (Path(folder), home, home / "class", home / "tmp"):
            path.chmod(mode)
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\nfrom course_grader.sandbox import bubblewrap\n"
            "print(bubblewrap.why_unavailable([sys.argv[2]]))\n"
        )
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", python, "-c", code]
        environment = {"HOME": str(home), "TMPDIR": str(home / "tmp"), "PATH": os.environ["PATH"]}
        run = [*words, str(home / "site"), str(home / "class/handed_in")]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout == "None\n", done.stdout + done.stderr


@pytest.mark.usefixtures("isolation")
def test_links_that_were_handed_in_lead_nowhere(place):
    """At every path that is covered, in a zip and, as a teacher's own tool may unpack it, as links on the disk."""
    start = bubblewrap.arguments([str(place.handed_in)], False)
    covered = [path for _, path, _ in pairs(start, "--tmpfs") if path != bubblewrap.SCRATCH]
    assert len(covered) >= 3
    with zipfile.ZipFile(place.handed_in / "eve.zip", "w") as archive:
        for path in covered:
            link = zipfile.ZipInfo(f"{path.lstrip('/')}/x.ipynb")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, "/etc/passwd")
    for path in covered:
        link = place.handed_in / "bob" / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("/etc")
    before = {*place.site.parent.rglob("*")}
    for submission in find_submissions(place.handed_in):
        assert not submission.files and submission.remarks
    assert {*place.site.parent.rglob("*")} == before
    assert bubblewrap.arguments([str(place.handed_in)], False) == start
    run = [*start, sys.executable, "-I", "-c", LOOK, *covered]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[]"] * len(covered), done.stderr


NOT_HIDDEN = r"not there lies within .*a site, where Python is installed, and is not a folder that could be hidden"


def test_what_cannot_be_hidden(place):
    with pytest.raises(ValueError, match=NOT_HIDDEN):
        paths_to_cover([str(place.site / "not there")], [str(place.site)])
    with pytest.raises(NoSandbox, match="is not a folder that could be hidden"):
        Isolation("bubblewrap", hidden=(str(place.site / "other.txt"),)).command("single_run", SETTINGS)


@pytest.mark.usefixtures("isolation")
def test_isolation_that_cannot_hide_is_not_chosen(place):
    with pytest.raises(NoSandbox, match=NOT_HIDDEN):
        choose_isolation(hidden=[place.site / "not there"])


def test_nothing_of_a_course_that_is_not_shown_is_covered():
    assert paths_to_cover([str(bubblewrap.COURSE), str(bubblewrap.GRADER)], ["/usr/lib"]) == []


ENGINE = """#!/bin/sh
'''exec' '{python}' "$0" "$@"
' '''
import json, os, sys
open({log!r}, "a").write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "run":
    words = sys.argv[sys.argv.index("an-image") + 2:]
    os.execv({python!r}, [{python!r}, *(word.replace("/sandbox", {sandbox!r}) for word in words)])
"""


@pytest.mark.slow
def test_a_container(path, tmp_path):
    """With a stand-in for docker that runs the words here: what is said to it, the sessions, and the end."""
    log = tmp_path / "log"
    mounted = tmp_path / "sandbox"  # what the engine would show the guest
    mounted.mkdir()
    for folder in (bubblewrap.GUEST, bubblewrap.ANSWERING):
        (mounted / folder.name).symlink_to(folder)
    path("docker", ENGINE.format(python=sys.executable, log=str(log), sandbox=str(mounted)))
    with Sandbox(choose_isolation(image="an-image"), ResourceLimits()) as sandbox, sandbox.session() as session:
        load(session, "def twice(x): return 2 * x")
        assert call(session, "twice", 21) == 42
    run, kill = map(json.loads, log.read_text().splitlines())
    name = run[run.index("--name") + 1]
    assert kill == ["kill", name] and name.startswith("course-grade-")
    said = " ".join(run[: run.index("an-image")])
    for words in (
        "run --rm --interactive", "--network none", "--read-only", "--tmpfs /tmp:size=16m", "--cap-drop ALL",
        "--memory 3221225472b --memory-swap 3221225472b", "--pids-limit 64", "--user 65534:65534",
        "--security-opt no-new-privileges", f"--volume {bubblewrap.GUEST}:/sandbox/guest:ro",
        f"--volume {bubblewrap.ANSWERING}:/sandbox/answering:ro",
    ):  # fmt: skip
        assert words in said
    assert "course_lib:ro" not in said and run[run.index("an-image") + 1] == "python"
    assert f"{bubblewrap.COURSE}:/sandbox/course/course_lib:ro" in container_arguments("docker", "an-image", True, 1, 1)


def test_an_engine_that_cannot(path):
    """The engine's own words reach the teacher."""
    path("docker", "#!/bin/sh\necho 'Unable to find image' >&2\nexit 125\n")
    sandbox = Sandbox(choose_isolation(image="an-image"), ResourceLimits())
    with pytest.raises(NoSandbox, match=r"A sandbox could not be started: Unable to find image\."), sandbox.session():
        pass


def test_the_dockerfile_installs_what_the_guest_imports():
    text = (bubblewrap.GUEST.parent / "Dockerfile").read_text()
    assert all(package in text for package in ("torch", "numpy", "USER 65534"))
