"""Machines that nobody prepared: a clean Debian in a folder; what happens on one is laid over it and thrown away."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENTER = Path(__file__).with_name("enter.sh")
MIRROR = os.environ.get("COURSE_MACHINES_MIRROR", "http://deb.debian.org/debian")
ALWAYS = ("python3", "make", "git", "ca-certificates")
SCRIPTS = {"forky": "sid"}  # an older debootstrap doesn't know the newest names
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
FROM_HERE = (CERTIFICATES, Path("etc/resolv.conf"), Path("etc/hosts"))  # how the network is reached
KEPT = ["index-url", "extra-index-url", "find-links", "cert", "proxy", "trusted-host", "timeout"]


@dataclass(frozen=True)
class Machine:
    """A Debian, and the folder that what happens on it goes to.

    Attributes:
        lower: the clean Debian.
        upper: what changed.
        user: "root", or an ordinary one.
    """

    lower: Path
    upper: Path
    user: str

    @property
    def home(self) -> str:
        return "/root" if self.user == "root" else f"/home/{self.user}"

    @property
    def course(self) -> str:
        """Where the course was cloned to, for the machine."""
        return f"{self.home}/attention-course"

    def command(self, line: str, user: str = "") -> list[str]:
        """The words that run a line of shell on the machine, from here."""
        user = user or self.user
        home = self.home if user == self.user else "/root"
        enter = ["setpriv", "--pdeathsig", "KILL"]  # if the tests are killed, so is what they started
        enter += ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", str(ENTER)]
        return [*enter, str(self.lower), str(self.upper), user, home, " ".join(map(str, local_indexes())), line]

    def run(self, line: str, seconds: float = 600, user: str = "") -> subprocess.CompletedProcess:
        """Run a line of shell in the course's folder, stdout and stderr together."""
        return subprocess.run(
            self.command(line, user),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )


def make_debian(name: str, folder: Path, *more: str) -> Path:
    """Make a clean Debian of the fewest packages, or take the one that is there.

    Args:
        name: its codename.
        folder: where Debians are kept.
        more: packages beside Python, make, Git and the certificates.

    Returns:
        Its folder.
    """
    made = folder / "-".join([name, *more])
    if not made.exists():
        half = made.with_name(f"{made.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        packages = ",".join([*ALWAYS, *more])
        words = ["debootstrap", "--variant=minbase", f"--include={packages}", name, str(half), MIRROR]
        done = subprocess.run([*words, *filter(None, [SCRIPTS.get(name)])], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"debootstrap could not make {name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        half.rename(made)
    return made


def new_machine(debian: Path, upper: Path, user: str) -> Machine:
    """Take a fresh machine into use: the network as here, a user, and the working tree cloned."""
    machine = Machine(debian, upper, user)
    top = upper / "top"
    for path in FROM_HERE:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path("/") / path, top / path)
    (top / "etc/pip.conf").write_text(pip_settings())
    lines = [] if user == "root" else [f"useradd --create-home --shell /bin/bash {user}"]
    done = machine.run("; ".join([*lines, f"chmod 1777 /tmp; mkdir -p {machine.course}"]), user="root")
    if done.returncode:
        raise RuntimeError(f"The machine could not be taken into use: {done.stdout}")
    copy_working_tree(top / machine.course.lstrip("/"))
    machine.run(f"chown -R {user} {machine.home}", user="root")
    return machine


def git(*words: str) -> list[str]:
    """The paths that a Git command names, each ended by a zero byte."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name]


def copy_working_tree(into: Path) -> None:
    """Clone the repository and lay over it what isn't committed yet."""
    # Without hard links: the machine's user will own the clone, and must not come to own ours.
    subprocess.run(
        ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--no-hardlinks", str(ROOT), str(into)], check=True
    )
    subprocess.run(["git", "-C", str(into), "remote", "remove", "origin"], check=True)
    changed = git("diff", "--name-only", "-z", "HEAD")
    for name in changed + git("ls-files", "-z", "--others", "--exclude-standard"):
        (into / name).unlink(missing_ok=True)
        if (ROOT / name).exists():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)


def pip_config() -> dict[str, str]:
    """What pip is told on this machine, by files and variables: option -> value."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    found = re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE)
    return {option: value.replace("\\n", " ") for option, value in sorted(found) if option in KEPT}


def pip_settings() -> str:
    """The same as a pip.conf, with the certificates where Debian keeps them."""
    given = pip_config()
    if "cert" in given:
        given["cert"] = f"/{CERTIFICATES}"
    return "\n".join(["[global]", *(f"{option} = {value}" for option, value in given.items()), ""])


def local_indexes() -> list[Path]:
    """The folders of this machine in which pip looks for packages."""
    words = " ".join(pip_config().get(option, "") for option in ("index-url", "extra-index-url", "find-links"))
    paths = [word.removeprefix("file://") for word in shlex.split(words)]
    found = [Path(path) for path in paths if path.startswith("/")]
    return [path.parent if path.name == "simple" else path for path in found if path.exists()]
