"""The pytest plugin: marked tests run below real limits, in a pytest of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAD = "import os, subprocess, sys, time, warnings\nimport pytest\nMIB = 1 << 20\n"


#: Other plugins that are installed here make each pytest start three times as slow.
ALONE = ("-p", "edgebench.pytest_plugin")


def run_pytest(folder: Path, tests: str, *args: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_made.py").write_text(HEAD + textwrap.dedent(tests))
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-rA", *args]
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    if "-n" not in args:
        words += ALONE
        env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    (last,) = re.findall(r"^=+ (.*) in [\d.]+s.*$", done.stdout, re.MULTILINE)[-1:] or [""]
    return {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", last)}


CONFTEST = """
import pytest
def pytest_addoption(parser): parser.addoption("--size", type=int)
@pytest.fixture(scope="module")
def area(request): return bytearray(request.config.getoption("--size") << 20)
@pytest.fixture(scope="module")
def opened():
    yield 1
    print("closed")
"""
#: What may happen in a marked test, below one limit.
TESTS = """
marked = pytest.mark.edgebench(memory="150M")

@marked
def test_large():
    print("before the kill")
    area = bytearray(200 * MIB)

def test_before(opened):
    pass

@marked
def test_fixture(area, tmp_path, capfd):
    print("inner")
    assert len(area) == 20 * MIB and tmp_path.is_dir()
    assert capfd.readouterr().out == "inner\\n"

@marked
def test_own_failure():
    os.system("echo of a child")
    left = 1
    assert left == 2

@marked
def test_skipped():
    pytest.skip("for a reason")

@pytest.mark.xfail(reason="known to be large", strict=True)
@marked
def test_known(area):
    bytearray(300 * MIB)

@marked
def test_warns():
    warnings.warn("careful", DeprecationWarning)

@pytest.mark.parametrize("text", ["a::b[1]", "sp ace/ü", "-k", ""])
@marked
def test_each(text, opened):
    assert isinstance(text, str)

class TestIn:
    @pytest.mark.edgebench("150M")
    def test_method(self):
        pass

def test_after(opened):
    pass
"""


@pytest.mark.own_cgroup
def test_outcomes_and_reports_are_as_elsewhere_but_for_a_kill(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    done = run_pytest(tmp_path, TESTS, "--size=20", "--junitxml=junit.xml")
    counts = {"passed": 9, "failed": 2, "skipped": 1, "xfailed": 1, "warning": 1}
    assert outcomes(done) == counts, done.stdout
    junit = (tmp_path / "junit.xml").read_text()
    assert '<property name="edgebench" value="peak 150 MiB of 150.0 MiB' in junit
    for pattern in (
        r"killed by the kernel at 150\.0 MiB\s+needs +2\d\d MiB",
        r"pytest +\d+(\.\d)? MiB\s+module +\d+",
        r"test_fixture: peak [\d.]+ MiB of 150\.0 MiB   pytest with",
        *("before the kill", "assert 1 == 2", "of a child", "for a reason"),
        "DeprecationWarning: careful",
    ):
        assert re.search(pattern, done.stdout), pattern
    assert "Traceback" not in done.stdout


@pytest.mark.own_cgroup
@pytest.mark.promise("Nothing that a marked test reports is imported or called outside its limit.")
def test_what_a_marked_test_sends_is_data(tmp_path: Path):
    (tmp_path / "never_imported.py").write_text("import os\nos.mkdir('imported')\n")
    done = run_pytest(
        tmp_path,
        """
        def category(module, name):
            return type(name, (UserWarning,), {"__module__": module})

        @pytest.mark.edgebench(memory="150M")
        def test_sends(request):
            warnings.warn("one", category("os", "mkdir"))
            warnings.warn("two", category("never_imported", "Careful"))
            warnings.warn("three", DeprecationWarning)
            (inner,) = (
                one for one in request.config.pluginmanager.get_plugins()
                if type(one).__name__ == "OneTest"
            )
            report = {"nodeid": "n", "outcome": "failed", "when": "call", "duration": 1,
                      "location": ["f", 1, "n"], "keywords": {}, "sections": [],
                      "user_properties": [], "longrepr": {"reprcrash": 1}}
            for data in (
                None, [], "lots", -0.5, report, {**report, "$report_type": "TestReport"},
                {**report, "$report_type": "CollectReport", "longrepr": None, "result": None},
                {**report, "$report_type": "TestReport", "longrepr": None, "duration": "long"},
            ):
                for what in ("report", "warning", "started", "collected"):
                    inner._send(what, data)
        """,
    )
    assert outcomes(done) == {"passed": 1, "warnings": 3}, done.stdout
    assert all(words in done.stdout for words in ("mkdir: one", "Careful: two"))
    assert "DeprecationWarning: three" in done.stdout
    # ``os.mkdir`` called with a text of a warning, or of a check; and what the module makes.
    made = {one.name for one in tmp_path.iterdir()}
    assert made & {"one", "message", "imported"} == set(), done.stdout


@pytest.mark.own_cgroup
def test_what_ends_early_is_said(tmp_path: Path):
    done = run_pytest(
        tmp_path,
        """
        @pytest.mark.edgebench(memory="150M")
        def test_crash():
            os.abort()

        @pytest.mark.edgebench(memory="150M", timeout="4s")
        def test_endless():
            subprocess.Popen(["sleep", "1000"])
            time.sleep(1000)

        @pytest.mark.edgebench(memory="150M")
        def test_forks():
            code = "area = bytearray(300 << 20)"
            subprocess.run([sys.executable, "-c", code], check=False)

        @pytest.mark.edgebench(memory="15M")
        def test_tiny():
            pass
        """,
    )
    assert outcomes(done) == {"failed": 4}, done.stdout
    assert "ended by signal 6" in done.stdout
    assert "ran past its time limit" in done.stdout
    assert "the kernel killed 1 process of it" in done.stdout
    assert "the test itself did not begin" in done.stdout


#: A marker's arguments, and what is said of them.
WRONG = {
    'memroy="1G"': "did you mean 'memory'?",
    "": "sets no memory limit",
    'memory="max"': "sets no memory limit",
    'memory="lots"': "is not a size",
    'memory="1G", slowdown=0.5': "can't allow slowdown=0.5",
    '"1G", "2G"': "takes one value without a name",
}


@pytest.mark.process
def test_a_wrong_marker_is_said(tmp_path: Path):
    tests = "\n".join(
        f"@pytest.mark.edgebench({arguments})\ndef test_{number}():\n    print('it ran')\n"
        for number, arguments in enumerate(WRONG)
    )
    done = run_pytest(tmp_path, tests, "--strict-markers")
    assert outcomes(done) == {"failed": len(WRONG)}
    said = re.split(r"^_+ test_\d+ _+$", done.stdout, flags=re.MULTILINE)[1:]
    for words, (arguments, says) in zip(said, WRONG.items(), strict=True):
        assert says in words, arguments
    for never in ("it ran", "another exception", "Traceback"):
        assert never not in done.stdout


@pytest.mark.own_cgroup
@pytest.mark.swap
@pytest.mark.long
def test_a_test_slowed_by_swap_fails_with_how_much(tmp_path: Path):
    body = """
            area = bytearray(150 * MIB)
            for _ in range(3):
                for page in range(0, len(area), 4096):
                    area[page] = 1
    """
    done = run_pytest(
        tmp_path,
        f"""
        @pytest.mark.edgebench(memory="60%", swap="400M", slowdown=1.01)
        def test_slow():{body}
        @pytest.mark.edgebench(memory="110%", slowdown=1000)
        def test_fast():{body}
        """,
    )
    assert outcomes(done) == {"failed": 1, "passed": 1}, done.stdout
    sentence = r"[\d.]+x at 60% \([\d.]+ MiB\) with 400\.0 MiB of swap \(file\), [\d.]+x allowed"
    assert re.search(sentence, done.stdout)
    assert "1.01x allowed" in done.stdout


@pytest.mark.own_cgroup
def test_workers_of_xdist_run_marked_tests(tmp_path: Path):
    done = run_pytest(
        tmp_path,
        """
        @pytest.mark.parametrize("size", [10, 300])
        @pytest.mark.edgebench(memory="150M")
        def test_each(size, worker_id):
            assert worker_id.startswith("gw")
            bytearray(size * MIB)
        """,
        *("-n", "2"),
    )
    assert outcomes(done) == {"failed": 1, "passed": 1}, done.stdout
    assert "killed by the kernel at 150.0 MiB" in done.stdout


@pytest.mark.process
def test_disabled_it_is_an_ordinary_test(tmp_path: Path):
    tests = (
        f"@pytest.mark.edgebench(memory='1M')\ndef test_it(): assert os.getppid() == {os.getpid()}"
    )
    done = run_pytest(tmp_path, tests, "--edgebench-disable")
    assert outcomes(done) == {"passed": 1}, done.stdout


@pytest.mark.process
def test_without_the_right_to_make_cgroups_it_is_skipped(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(
        "from edgebench.errors import CgroupError\n"
        "import edgebench.pytest_plugin.limited_test as limited\n"
        "def refused(*_, **__): raise CgroupError('no cgroups are mounted', remedy='mount them')\n"
        "limited.open_session = refused\n"
    )
    tests = "@pytest.mark.edgebench(memory='100M')\ndef test_it(): pass\n"
    done = run_pytest(tmp_path, tests)
    assert outcomes(done) == {"skipped": 1}
    assert "no memory limit can be set here: no cgroups are mounted" in done.stdout
    required = run_pytest(tmp_path, tests, "-o", "edgebench_required=true")
    assert outcomes(required) == {"failed": 1}
    assert "mount them" in required.stdout


@pytest.mark.own_cgroup
def test_ctrl_c_leaves_nothing(tmp_path: Path):
    (tmp_path / "test_made.py").write_text(
        HEAD + "@pytest.mark.edgebench(memory='150M')\ndef test_it():\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n    time.sleep(1000)\n"
    )
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *ALONE]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as run:
        wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        pid = int((tmp_path / "pid").read_text())
        group = Path(f"/proc/{pid}/cgroup").read_text()
        run.send_signal(signal.SIGINT)
        said = run.communicate()[0]
    assert f"edgebench-{run.pid}-test" in group
    assert "KeyboardInterrupt" in said
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert not list(temporary.glob("edgebench-*"))


@pytest.mark.process
def test_other_tests_pay_nothing(tmp_path: Path):
    tests = "def test_it(): print(sorted(n for n in sys.modules if n.startswith('edgebench')))"
    done = run_pytest(tmp_path, tests)
    # A build also writes a module of its version, of two lines.
    said = done.stdout.replace("'edgebench._version', ", "")
    assert "['edgebench', 'edgebench.pytest_plugin', 'edgebench.version']" in said


def wait_for(happened: Callable[[], object], seconds: float = 200.0) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)
