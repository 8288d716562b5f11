"""The command line: what it prints, and how it refuses."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import marcir
from marcir.cli import COMMANDS, main

MARCIR = Path(sysconfig.get_path("scripts")) / "marcir"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([MARCIR, *arguments], capture_output=True, text=True, timeout=80)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a refused command prints."""
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = exit_.code
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    return printed.err.rstrip("\n")


def stopped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What an option prints that ends the program."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    return capsys.readouterr().out


# ---- As a program --------------------------------------------------------------------------------


def test_the_program_tells_its_version() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"marcir {marcir.__version__}\n", "")


def test_the_program_refuses_an_unknown_command_with_one_line_and_2() -> None:
    done = command("dmeo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "marcir: unknown command 'dmeo'. Did you mean 'demo'? Try: marcir --help\n"


def test_the_program_refuses_what_a_command_cannot_do_with_one_line_and_2(tmp_path: Path) -> None:
    done = command("data", "scenes", "--out", str(tmp_path / "new"), "--images", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "marcir: images = 0: must be a whole number from 1 to 1000000.\n"


# ---- Help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_the_commands_and_options(capsys: pytest.CaptureFixture[str], option: str) -> None:
    text = stopped(capsys, option)
    assert text.startswith("usage: marcir")
    assert "--version" in text
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S", text, re.MULTILINE)


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out == stopped(capsys, "--help")


def test_the_arguments_of_the_program_are_taken_by_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["marcir", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out == f"marcir {marcir.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert stopped(capsys, name, "--help").startswith(f"usage: marcir {name}")


def test_help_of_the_demo_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    text = stopped(capsys, "demo", "--help")
    assert "--epochs" in text
    assert "--seed" in text


# ---- Refusals ------------------------------------------------------------------------------------


def test_a_command_that_resembles_none_is_refused_with_all_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = f"marcir: unknown command 'xyzzy'. Known: {', '.join(sorted(COMMANDS))}."
    assert refusal(capsys, "xyzzy").startswith(expected)


def test_an_empty_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "").startswith("marcir: unknown command ''. Known: ")


def test_an_unknown_option_is_refused_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "marcir: unknown argument '--verison'. Did you mean '--version'? Try: marcir --help"
    assert refusal(capsys, "--verison") == expected


@pytest.mark.parametrize(
    "arguments", [("--epohcs", "2"), ("--epohcs=2",), ("--epochs", "2", "--epohcs", "3")]
)
def test_an_unknown_option_of_a_command_is_refused_with_the_nearest_name(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    line = refusal(capsys, "demo", *arguments)
    assert line.startswith("marcir demo: unknown argument '--epohcs")
    assert line.endswith("Did you mean '--epochs'? Try: marcir demo --help")


@pytest.mark.parametrize("option", ["--vers", "--version=1", "-v"])
def test_a_part_of_an_option_is_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert refusal(capsys, option).startswith("marcir: ")


@pytest.mark.parametrize(("part", "option"), [("--epoch", "--epochs"), ("--see", "--seed")])
def test_a_part_of_an_option_of_a_command_is_refused_with_the_nearest_name(
    capsys: pytest.CaptureFixture[str], part: str, option: str
) -> None:
    line = refusal(capsys, "demo", "--epochs", "1", part, "1")
    assert line.startswith(f"marcir demo: unknown argument '{part}'. Did you mean '{option}'?")


def test_an_argument_too_many_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "demo", "more").startswith("marcir demo: unknown argument 'more'.")


@pytest.mark.parametrize("option", ["--epochs", "--seed"])
@pytest.mark.parametrize("value", ["many", "1.5", "", "nan"])
def test_a_value_that_is_no_whole_number_is_refused_with_its_option(
    capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    line = refusal(capsys, "demo", option, value)
    assert line.startswith(f"marcir demo: argument {option}: ")
    assert repr(value) in line


@pytest.mark.parametrize("option", ["--epochs", "--seed"])
def test_a_missing_value_is_refused_with_its_option(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert refusal(capsys, "demo", option).startswith(f"marcir demo: argument {option}: ")


@pytest.mark.parametrize("epochs", ["0", "-3"])
def test_fewer_than_one_epoch_is_refused(capsys: pytest.CaptureFixture[str], epochs: str) -> None:
    said = refusal(capsys, "demo", "--epochs", epochs)
    assert f"--epochs = {epochs}: must be a whole number of 1 or more." in said


@pytest.mark.parametrize("seed", [str(2**64), str(-(2**63) - 1), "9" * 30])
def test_a_seed_of_more_than_64_bits_is_refused(capsys: pytest.CaptureFixture[str], seed: str) -> None:
    assert refusal(capsys, "demo", "--epochs", "1", "--seed", seed).startswith("marcir")
