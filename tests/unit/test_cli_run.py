"""Runs of ``verify``, ``fuzz`` and ``prove`` over small engines: verdicts, exit status, interrupt, files."""

import itertools
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kvproof.harness.cli import campaign, engines
from kvproof.harness.cli.main import main
from kvproof.harness.devices.base import Availability
from kvproof.properties.statement import Needs
from kvproof.reports.codec import decode_record
from kvproof.reports.finding import Finding
from kvproof.reports.result import Result
from kvproof.reports.store import Store
from kvproof.reports.verdict import Status, Verdict

FINDING = Finding(
    "kernel", "window_write", "writes its rows", "v4-flash", {"T": 1}, "row 7 [was] written", "a", "b"
)


class FakeDevice:
    def __init__(self, name, detail, available):
        self.name = name
        self.availability = Availability(available, detail)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command over engines that answer what the test says; returns (exit status, record)."""
    numbers = itertools.count()

    def call(*arguments, proofs=(), tasks=(), devices=()):
        monkeypatch.setenv("KVPROOF_STORE", str(tmp_path / f"store{next(numbers)}"))
        found = [engines.FoundDevice(device, device.availability) for device in devices]
        monkeypatch.setattr(engines, "planned_proofs", lambda *_: [(r.subject, r.property_name) for r in proofs])
        monkeypatch.setattr(
            campaign, "statements_of", lambda _system: [SimpleNamespace(name=r.property_name) for r in proofs]
        )
        monkeypatch.setattr(engines, "prove", lambda *_: iter(proofs))
        monkeypatch.setattr(engines, "find_devices", lambda _wanted: found)
        monkeypatch.setattr(engines, "fuzz_tasks", lambda *_, **__: list(tasks))
        monkeypatch.setattr(campaign, "run_tasks", in_this_process)
        status = main([*arguments, "--config", "v4-flash"])
        records = list(Store().records())
        return status, records[-1] if records else None

    return call


def in_this_process(tasks, budget_seconds, seed):
    for place, item in enumerate(tasks):
        yield place, engines.attempt(item, engines.Turn(budget_seconds, seed))[0]


def fuzz_task(run, property_name="p"):
    return engines.FuzzTask("v4-flash", property_name, "", Needs(1), run)


def proof(status, reason=""):
    return Result("v4-flash", "window/window", "prove", Verdict(status, reason), 0.1, 3)


def task(status, reason="", findings=(), property_name="window_write"):
    def answer(_turn):
        return Result("v4-flash", property_name, "fuzz", Verdict(status, reason), 0.1, 9, findings=findings)

    return fuzz_task(answer, property_name)


@pytest.mark.parametrize(
    ("proofs", "tasks", "status"),
    [
        ([proof(Status.PASS)], [task(Status.PASS)], 0),
        ([proof(Status.PASS)], [task(Status.NOT_RUN, "no GPU")], 0),
        ([proof(Status.NOT_RUN, "no solver")], [task(Status.NOT_RUN, "no GPU")], 3),
        ([proof(Status.UNKNOWN, "gave up")], [task(Status.PASS)], 3),
        ([proof(Status.PASS)], [task(Status.UNSUPPORTED, "atomics")], 3),
        ([proof(Status.UNKNOWN, "gave up")], [task(Status.FAIL, "row 7", (FINDING,))], 1),
        ([proof(Status.FAIL, "rows meet")], [task(Status.PASS)], 1),
        ([], [], 3),
    ],
)
def test_the_exit_status_follows_the_verdicts(run, capsys, proofs, tasks, status):
    assert run("verify", proofs=proofs, tasks=tasks)[0] == status
    out = capsys.readouterr().out
    for result in [*proofs, *[t.run(None) for t in tasks]]:
        assert result.verdict.reason in out


def test_a_fault_is_stored_and_its_replay_command_printed(run, capsys):
    status, record = run("fuzz", tasks=[task(Status.FAIL, "row 7", (FINDING,))])
    assert status == 1
    out = capsys.readouterr().out
    assert f"kvproof replay {FINDING.id}" in out
    assert "row 7 [was] written" in out  # brackets are text, not markup
    assert Store().find(FINDING.id) == FINDING
    assert record.results[0].findings == (FINDING,)


def test_the_table_has_a_row_a_property_and_counts_of_every_status(run, capsys):
    tasks = [task(Status.PASS, property_name="a"), task(Status.UNKNOWN, "2 of 100 cases", property_name="b")]
    run("verify", proofs=[proof(Status.PASS)], tasks=tasks)
    out = capsys.readouterr().out
    assert re.search(r"v4-flash +window/window +PASS +3 +0\.10 s", out)
    assert re.search(r"\n +b +UNKNOWN +9 +0\.10 s", out)
    assert "1 PASS, 0 FAIL, 1 UNKNOWN, 0 UNSUPPORTED, 0 NOT_RUN; 18 cases" in out
    assert "UNKNOWN b (v4-flash): 2 of 100 cases" in out


def test_many_subjects_get_a_letter_each_in_one_row_a_property(capsys):
    from kvproof.harness.cli.tables import print_tables
    from kvproof.harness.cli.terminal import output_console

    subjects = ["a", "b", "c", "d"]
    results = [
        *[Result(s, "p", "prove", Verdict(Status.PASS), 0.25, 2) for s in subjects],
        Result("a", "q", "prove", Verdict(Status.FAIL, "rows meet"), 0.25, 2),
        Result("b", "q", "prove", Verdict(Status.UNKNOWN, "gave up"), 0.25, 2),
        Result("d", "q", "prove", Verdict(Status.PASS), 0.25, 2),
        Result("all configurations", "p", "fuzz", Verdict(Status.PASS), 1.0, 100),
        Result("any layout", "p", "fuzz", Verdict(Status.UNKNOWN, "too few"), 1.0, 7),
        Result("all configurations", "k", "fuzz", Verdict(Status.NOT_RUN, "no GPU"), 0.0, device="cuda"),
    ]
    print_tables(results, output_console())
    out = capsys.readouterr().out
    assert "1 a, 2 b, 3 c, 4 d" in out
    assert re.search(r"p +PPPP +8 +PASS +UNKNOWN +107 +3\.00 s", out)
    assert re.search(r"q +FU\.P +6 +0\.75 s", out)
    assert re.search(r"k on cuda +NOT_RUN +0 +0\.00 s", out)


def test_an_absent_device_is_not_run_and_printed(run, capsys):
    devices = [FakeDevice("cuda", "no CUDA GPU found", available=False)]
    status, record = run("fuzz", tasks=[task(Status.PASS)], devices=devices)
    assert status == 0
    out = capsys.readouterr().out
    assert "device cuda: not run, no CUDA GPU found" in out
    assert "NOT_RUN" in out
    absent = [r for r in record.results if r.device == "cuda"]
    assert absent
    assert {r.verdict.status for r in absent} == {Status.NOT_RUN}
    assert record.devices[0].detail == "no CUDA GPU found"


def test_auto_leaves_the_interpreter_out_where_the_compiled_ir_runs(monkeypatch):
    from kvproof.harness.devices import registry

    def chosen(wanted, *, ir):
        devices = [SimpleNamespace(name=name) for name in ("cuda", "hip", "ir", "interpret")]
        for device in devices:
            here = Availability(device.name == "interpret" or (device.name == "ir" and ir), "")
            device.probe = lambda here=here: here
        monkeypatch.setattr(registry, "all_devices", lambda: devices)
        return [found.name for found in engines.find_devices(wanted)]

    assert chosen("auto", ir=True) == ["cuda", "hip", "ir"]
    assert chosen("auto", ir=False) == ["cuda", "hip", "ir", "interpret"]
    assert chosen("all", ir=True) == ["cuda", "hip", "ir", "interpret"]
    assert chosen("interpret", ir=True) == ["interpret"]


def test_an_interrupt_prints_what_was_checked_and_does_not_pass(run, capsys):
    def interrupt(_turn):
        raise KeyboardInterrupt

    tasks = [task(Status.PASS, property_name="done"), fuzz_task(interrupt, "never")]
    status, record = run("fuzz", tasks=tasks)
    assert status == 130
    out = capsys.readouterr().out
    assert re.search(r"done +PASS", out)
    assert "stopped early: 1 of 2 checks were made" in out
    assert (record.complete, len(record.results)) == (False, 1)
    assert run("fuzz", tasks=[task(Status.FAIL, "x", (FINDING,)), tasks[1]])[0] == 1


def test_an_engine_that_breaks_is_unknown_and_the_rest_still_runs(run, capsys):
    def broken(_turn):
        raise ZeroDivisionError("by [zero]")

    def absent(_turn):
        raise ModuleNotFoundError("No module named 'triton'", name="triton")

    tasks = [fuzz_task(broken, "a"), fuzz_task(absent, "b"), task(Status.PASS)]
    status, record = run("fuzz", tasks=tasks)
    assert status == 3
    assert [r.verdict.status for r in record.results] == [Status.UNKNOWN, Status.NOT_RUN, Status.PASS]
    out = capsys.readouterr().out
    assert "the engine broke: ZeroDivisionError: by [zero]" in out
    assert "triton is not installed: install the build" in out


def test_a_prover_that_breaks_leaves_no_statement_unanswered(monkeypatch):
    from kvproof.models.deepseek_v4 import CONFIGS

    planned = engines.planned_proofs([CONFIGS["v4-flash"]], ["row-space", "scratch"])

    def broken(_subjects, _choice, _on_wait):
        yield Result(*planned[0], "prove", Verdict(Status.PASS), 0.1, 3)
        raise MemoryError("solver")

    monkeypatch.setattr(engines, "run_proofs", broken)
    results = list(engines.prove([CONFIGS["v4-flash"]], ["row-space", "scratch"]))
    assert [(r.subject, r.property_name) for r in results] == planned
    assert {"v4-flash", "v4-pro-tp8", "v4.1-flash-tp2"} <= {r.subject for r in results}
    assert [r.verdict.status for r in results] == [Status.PASS, *[Status.UNKNOWN] * (len(planned) - 1)]


def test_the_seed_reaches_every_task_and_the_record(run):
    seeds = []

    def note(turn):
        seeds.append(turn.seed)
        return Result("v4-flash", "p", "fuzz", Verdict(Status.PASS), 0.0, 1)

    tasks = [fuzz_task(note)]
    assert run("fuzz", tasks=tasks)[1].seed == 0
    assert run("fuzz", "--seed", "7", tasks=tasks)[1].seed == 7
    assert seeds == [0, 7]


def test_json_and_junit_files_hold_the_run(run, tmp_path):
    paths = tmp_path / "run.json", tmp_path / "run.xml"
    run("verify", "--json", str(paths[0]), "--junit", str(paths[1]), proofs=[proof(Status.PASS)])
    record = decode_record(paths[0].read_text(), "run.json")
    assert record.results == (proof(Status.PASS),)
    assert record.command[0] == "verify"
    assert record.versions["python"].startswith("3.")
    assert "<testsuites" in paths[1].read_text()


def test_a_store_that_cannot_be_written_costs_a_line(run, tmp_path, capsys):
    (tmp_path / "store0").write_text("a file where the folder should be")
    assert run("verify", proofs=[proof(Status.PASS)])[0] == 0
    assert "nothing was kept" in capsys.readouterr().err


def test_without_a_terminal_nothing_but_results_is_printed(run, capsys):
    run("verify", proofs=[proof(Status.PASS)], tasks=[task(Status.PASS)])
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "\x1b" not in captured.out


def test_the_prove_and_fuzz_halves_do_not_run_the_other(run):
    halves = {"proofs": [proof(Status.PASS)], "tasks": [task(Status.PASS)]}
    assert [r.engine for r in run("prove", **halves)[1].results] == ["prove"]
    assert [r.engine for r in run("fuzz", **halves)[1].results] == ["fuzz"]
    assert [r.engine for r in run("verify", **halves)[1].results] == ["prove", "fuzz"]


WRONG = [
    ["verify", "--config", "v4-flsh"],
    ["verify", "--config", "absent/config.json"],
    ["verify", "--kv", "fp16"],
    ["verify", "--config", "v4-flash", "--draft-tokens", "-1"],
    ["verify", "--config", "v4-flash", "--draft", "eagle"],
    ["verify", "--config", "v4-flash", "--block-size", "100"],
    ["verify", "--draft-tokens", "1"],
    ["verify", "--device", "tpu"],
    ["verify", "--budget", "5x"],
    ["verify", "--budget", "0"],
    ["verify", "--seed", "-1"],
    ["verify", "--json", "absent/run.json"],
    ["verify", "--junit", "absent/run.xml"],
    ["verify", "--bogus"],
    ["verify", "extra"],
    ["fuzz", "--budget"],
    ["fuzz", "--contract", "window_write"],
    ["prove", "--budget", "60s"],
    ["layout"],
    ["layout", "v4-flsh"],
    ["layout", "v4-flash", "--kv", "int4"],
    ["replay"],
    ["replay", "123456789abc"],
    ["replay", "absent.json"],
    ["doctor", "extra"],
    ["nonsense"],
]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_use_is_one_line_on_stderr_and_status_2(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kvproof: error: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    assert not list(tmp_path.iterdir())


BLOCKER = """
import sys
from types import SimpleNamespace
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "triton", "z3", "cvc5", "ml_dtypes"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
from kvproof.harness.cli.main import main
"""


def _without_engines(script):
    done = subprocess.run([sys.executable, "-c", BLOCKER + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_help_works_without_torch_triton_or_solver_and_has_an_example():
    from kvproof.harness.cli.registry import all_commands

    names = list(all_commands())
    assert {"verify", "fuzz", "prove", "replay", "layout", "doctor"} <= set(names)
    code = f"for n in {names}: print('@@' + n); assert main([*n.split(), '--help']) == 0"
    texts = _without_engines(code).split("@@")[1:]
    for name, text in zip(names, texts, strict=True):
        assert re.search(rf"Examples?:\n +kvproof {name}", text), name
    heavy = "{m for m in ('numpy', 'hypothesis', 'pytest') if m in sys.modules}"
    out = _without_engines(f"assert main(['--help']) == 0; print('loaded', {heavy})")
    # A name of two words is listed by the help of its first.
    for name in names:
        assert f"  {name.split()[0]}" in out
    assert out.endswith("loaded set()\n")


def test_layout_works_without_torch_triton_or_solver():
    assert "1,384" in _without_engines("assert main(['layout', 'v4-flash']) == 0")


def test_without_a_solver_proofs_are_not_run_and_that_does_not_pass(tmp_path, monkeypatch):
    monkeypatch.setenv("KVPROOF_STORE", str(tmp_path))
    out = _without_engines("assert main(['prove', '--config', 'v4-flash']) == 3")
    assert "0 PASS, 0 FAIL, 0 UNKNOWN, 0 UNSUPPORTED" in out
    assert "no solver is installed" in " ".join(out.split())


def test_doctor_says_what_is_missing_and_runs_without_it():
    out = _without_engines("assert main(['doctor']) == 0")
    for device in ("cuda", "hip", "interpret"):
        assert re.search(rf"^device +{device}: no, .*torch", out, re.MULTILINE)
    assert re.search(r"^device +ir: no, needs ml_dtypes", out, re.MULTILINE)
    assert "kernels are NOT_RUN there" in out


def test_without_arguments_the_help_is_printed(capsys):
    assert main([]) == 0
    assert "kvproof verify" in capsys.readouterr().out


def test_the_module_runs_as_the_command_does():
    done = subprocess.run(
        [sys.executable, "-m", "kvproof", "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"kvproof \S+\n", done.stdout)


def test_a_command_name_is_registered_once():
    from kvproof.harness.cli.registry import all_commands, command

    function = all_commands()["doctor"]
    with pytest.raises(ValueError, match="doctor"):
        command("doctor")(function)


def test_replaying_says_what_became_of_the_fault(run, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KVPROOF_STORE", str(tmp_path / "store"))
    path = Store().save_finding(FINDING)
    for verdict, status, words in (
        (Verdict(Status.PASS), 0, "the fault is gone"),
        (Verdict(Status.FAIL, "row 7"), 1, "the fault is still there"),
        (Verdict(Status.NOT_RUN, "no GPU"), 3, "could not be run"),
    ):
        result = Result("v4-flash", "window_write", "replay", verdict, 0.1, 1)
        monkeypatch.setattr(
            engines, "replay", lambda finding, result=result: (finding == FINDING and result) or None
        )
        for wanted in (FINDING.id, str(path)):
            assert main(["replay", wanted]) == status
            assert words in capsys.readouterr().out
    path.write_text(json.dumps({"schema": "kvproof/finding/1"}))
    assert main(["replay", FINDING.id]) == 2
    assert "lacks 'id'" in capsys.readouterr().err
