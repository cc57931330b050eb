"""What students hand in to read elsewhere, to hang a run or to fill a memory."""

import os
import random
import runpy
import stat
import struct
import tracemalloc
import warnings
import zipfile
import zlib

import pytest

from course_grader.submissions import OWN_TIMESTAMP, Unreadable, collector, files_and_zips, find_submissions
from course_grader.submissions.files_and_zips import MAX_BYTES
from tests.grader.submissions.submitted_files import NOTEBOOK, only, put, zipped


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and there are no named pipes")
def test_nothing_leads_elsewhere_and_nothing_hangs(tmp_path):
    secret = put(tmp_path / "outside" / "answers.ipynb", b"secret")
    here = tmp_path / "submissions"
    put(here / "eve" / "good.ipynb")
    for name, target in {"a.ipynb": secret, "b": secret.parent, "c": here, "d.ipynb": "/dev/zero"}.items():
        (here / "eve" / name).symlink_to(target)
    os.mkfifo(here / "eve" / "pipe.ipynb")
    os.mkfifo(here / "eve" / "timestamp.txt")
    (here / "fay.ipynb").symlink_to(secret)
    (here / "gus").symlink_to(secret.parent)
    (here / "hal").symlink_to(here / "nowhere")
    os.mkfifo(here / "ida.ipynb")
    found = {submission.student: submission for submission in find_submissions(here)}
    assert [file.name for file in found["eve"].files] == ["good.ipynb"]
    link, ordinary = "is a link; hand in the file itself.", "is not a regular file; hand in the file itself."
    assert found["eve"].remarks == (
        OWN_TIMESTAMP,
        *(f"{name} {link}" for name in ("a.ipynb", "b", "c", "d.ipynb")),
        f"pipe.ipynb {ordinary}",
    )
    assert [found[name].remarks for name in ("fay", "gus", "hal")] == [
        (f"{name} {link}",) for name in ("fay.ipynb", "gus", "hal")
    ]
    assert found["ida"].remarks == (f"ida.ipynb {ordinary}",) and not found["ida"].files


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and there are no named pipes")
def test_a_file_that_is_exchanged_before_it_is_read(tmp_path, monkeypatch):
    path = put(tmp_path / "eve" / "a.ipynb")
    (file,) = only(tmp_path).files
    secret = put(tmp_path / "answers.ipynb", b"secret")
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(Unreadable, match=r"It is not a regular file; hand in the file itself\."):
        file.read()
    seen = os.lstat(secret)
    monkeypatch.setattr(files_and_zips.os, "lstat", lambda _: seen)  # exchanged just after it was looked at
    with pytest.raises(Unreadable, match=r"It can't be opened \(.*\): hand it in again."):
        file.read()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Unreadable, match=r"It is not a regular file; hand in the file itself\."):
        file.read()


def test_too_large_too_deep_too_many(tmp_path):
    with open(put(tmp_path / "eve" / "large.ipynb"), "r+b") as file:
        file.truncate(MAX_BYTES + 1)
    put(tmp_path.joinpath("eve", *"abcdef", "deep.ipynb"))
    for number in range(collector.MAX_NOTEBOOKS + 1):
        put(tmp_path / "eve" / f"{number:03}.ipynb")
    submission = only(tmp_path)
    assert [file.name for file in submission.files] == [f"{number:03}.ipynb" for number in range(50)]
    assert submission.remarks == (
        "a/b/c/d/e/f is nested too deeply (5 folders): hand it in nearer to the top.",
        "large.ipynb can't be read. It is too large (100 MB): clear the outputs and hand it in again.",
        "There are 51 notebooks: only the first 50, by name, were read.",
    )


def test_no_more_is_looked_at_or_said_than_a_person_can_use(tmp_path, monkeypatch):
    monkeypatch.setattr(collector, "MAX_ENTRIES", 30)
    for number in range(40):
        zipped(tmp_path / "eve" / f"{number:02}.zip", {}).write_bytes(b"no zip")
    remarks = only(tmp_path).remarks
    assert len(remarks) == collector.MAX_REMARKS + 1
    assert remarks[0] == "00.zip can't be read. It is a broken zip: hand in the notebook itself."
    assert remarks[-1] == "10 more remarks were left out."  # of 29 zips and the sentence about the rest


def test_files_in_zips_are_counted_too(tmp_path, monkeypatch):
    monkeypatch.setattr(collector, "MAX_ENTRIES", 30)
    for name in ("a", "b/1/x", "b/2/y"):
        zipped(tmp_path / "eve" / f"{name}.zip", {f"{name}{number}.ipynb": NOTEBOOK for number in range(20)})
    submission = only(tmp_path)
    assert len(submission.files) == 40 and submission.remarks == (
        "There are more than 30 files: the rest was not looked at.",
    )


def bomb(path, says):
    """300 MB of zeros in a small zip, which says that it is as large as that, or smaller."""
    packer = zlib.compressobj(9, wbits=-15)
    million = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    content = bytearray(zipped(path, {"bomb.ipynb": million * 300}, compression=zipfile.ZIP_STORED).read_bytes())
    for header in (0, content.index(b"PK\x01\x02") + 2):  # the table of contents has two bytes more in front
        struct.pack_into("<H", content, header + 8, zipfile.ZIP_DEFLATED)
        struct.pack_into("<L", content, header + 22, says)
    path.write_bytes(content)
    assert len(content) < 500_000


def test_a_zip_bomb(tmp_path):
    bomb(tmp_path / "a.zip", 300_000_000)
    bomb(tmp_path / "b.zip", MAX_BYTES + 1)
    bomb(tmp_path / "c.zip", 2_000)
    honest, large, liar = find_submissions(tmp_path)
    remedy = "clear the outputs and hand it in again."
    assert honest.remarks == (f"a.zip can't be read. It is too large (300 MB): {remedy}",) and not honest.files
    assert large.remarks == (f"bomb.ipynb can't be read. It is too large (100 MB): {remedy}",) and not large.files
    tracemalloc.start()
    with pytest.raises(Unreadable, match=r"It is in a broken zip: hand in the notebook itself\."):
        liar.files[0].read()
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_the_size_that_is_read_counts_and_not_the_one_that_is_said(tmp_path, monkeypatch):
    put(tmp_path / "eve.ipynb", bytes(5001))
    (file,) = only(tmp_path).files
    monkeypatch.setattr(files_and_zips, "MAX_BYTES", 5000)
    with pytest.raises(Unreadable, match=r"It is too large \(0 MB\): clear the outputs and hand it in again\."):
        file.read()


def test_names_in_a_zip_are_only_names(tmp_path):
    names = ["../../up.ipynb", "/etc/cron.d/x.ipynb", "C:\\x.ipynb", "a\\.hidden\\x.ipynb", "\u202e.ipynb"]
    zipped(tmp_path / "in" / "eve.zip", dict.fromkeys(names, NOTEBOOK))
    before = {*tmp_path.rglob("*")}
    submission = only(tmp_path / "in")
    assert [file.name for file in submission.files] == [
        "../../up.ipynb",
        "/etc/cron.d/x.ipynb",
        "C:\\u005cx.ipynb",
        "\\u202e.ipynb",
    ]
    assert [file.read() for file in submission.files] == [NOTEBOOK] * 4
    assert {*tmp_path.rglob("*")} == before


def test_what_a_zip_may_hold_besides(tmp_path):
    path = zipped(tmp_path / "eve.zip", {"locked.ipynb": NOTEBOOK})
    content = bytearray(path.read_bytes())
    for place in (6, content.index(b"PK\x01\x02") + 8):
        content[place] |= 1  # the flag of a password
    path.write_bytes(content)
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("link.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("slow.ipynb", bytes(5000), zipfile.ZIP_BZIP2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for content in (b"first", b"last"):
                archive.writestr("twice.ipynb", content)
    submission = only(tmp_path)
    assert submission.remarks == (
        "link.ipynb can't be read. It is a link; hand in the file itself.",
        "locked.ipynb can't be read. It is protected with a password: hand in the notebook itself.",
        "slow.ipynb can't be read. It is compressed by an unsupported method (12): hand in the notebook itself.",
    )
    assert [(file.name, file.read()) for file in submission.files] == [
        ("twice.ipynb", b"first"),
        ("twice.ipynb", b"last"),
    ]


def test_a_zip_with_an_endless_table_of_contents(tmp_path, monkeypatch):
    zipped(tmp_path / "eve.zip", {f"{number}.txt": b"" for number in range(100)})
    monkeypatch.setattr(files_and_zips, "MAX_DIRECTORY", 4000)
    assert only(tmp_path).remarks == ("eve.zip can't be read. It is a broken zip: hand in the notebook itself.",)


@pytest.mark.slow
def test_damaged_zips_never_stop_the_run(tmp_path):
    whole = zipped(tmp_path / "eve.zip", {"a.ipynb": NOTEBOOK * 20, "b/ü.ipynb": NOTEBOOK}).read_bytes()
    chance, read, refused = random.Random(7), 0, 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        (tmp_path / "eve.zip").write_bytes(damaged[: chance.choice((None, None, chance.randrange(len(damaged))))])
        submission = only(tmp_path)
        refused += bool(submission.remarks)
        for file in submission.files:
            try:
                read += file.read() is not None
            except Unreadable:
                refused += 1
    assert read > 50 and refused > 50


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_a_system_without_these_flags(monkeypatch, tmp_path):
    for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY"):
        monkeypatch.delattr(os, flag, raising=False)
    module = runpy.run_module(files_and_zips.__name__)
    with module["open_regular"](put(tmp_path / "a.ipynb")) as file:
        assert file.read() == NOTEBOOK
