"""The scripts that docs/results.md rests on."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from marcir.experiments.record import Results
from marcir.metrics.scores import Scores
from report_records import made_comparison, made_record

SCRIPTS = Path("benchmarks").absolute()


def run(script: str, arguments: Sequence[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")


def test_what_is_chosen_has_the_better_validation_score_whatever_it_has_on_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [Results(tmp_path / "one"), Results(tmp_path / "other")]
    wanted: dict[tuple[str, str], float] = {}
    for dataset in ("ucm", "dlrsd"):
        for loss, better in (("marc", 0), ("mulsupcon", 1)):
            for place, folder in enumerate(folders):
                strength = 0.2 if place == better else 0.6  # on test it is worse
                scores = {"validation": {"nDCG@100": 0.8 if place == better else 0.7}, "dataset": dataset}
                for seed in (0, 1):
                    made_record(loss, seed, strength, results=folder, **scores)
            wanted[dataset, loss] = better
    made_record("marc", 2, results=folders[0])  # a seed that the other has not
    run("chosen_on_validation.py", [*(f.path for f in folders), "--out", tmp_path / "out"], monkeypatch)
    assert "ucm marc (2 seeds)\t80.00\t70.00" in capsys.readouterr().out
    chosen = Results(tmp_path / "out").records()
    assert len(chosen) == 8
    for record in chosen:
        source = folders[int(wanted[record.dataset, record.method])].load(record.study, record.name)
        assert source is not None
        assert isinstance(source.scores, Scores)
        assert record.scores == source.scores
        assert Results(tmp_path / "out").vectors(record).ids == source.scores.ids


def test_folders_that_cannot_be_chosen_from_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = made_comparison(tmp_path / "both", ("marc", "oml"), (0,))
    one = made_comparison(tmp_path / "one", ("marc",), (0,))
    later = made_comparison(tmp_path / "later", ("marc",), (5,))
    (tmp_path / "empty").mkdir()
    for given, said in (
        ([one.path, tmp_path / "empty"], "empty: no finished runs"),
        ([one.path, both.path], "ucm oml is not in both"),
        ([one.path, later.path], "ucm marc: no seed is in all folders"),
    ):
        with pytest.raises(SystemExit, match="2"):
            run("chosen_on_validation.py", [*given, "--out", tmp_path / "out"], monkeypatch)
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_seeds_of_one_loss_are_counted_and_too_few_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made_comparison(tmp_path / "five", ("marc",), range(5))
    run("seeds_of_one_loss.py", [tmp_path / "five"], monkeypatch)
    one, two = capsys.readouterr().out.splitlines()
    assert one.startswith("one seed and one: of 70 columns ")
    assert two.startswith("two seeds and two: of 21 columns ")
    made_comparison(tmp_path / "two", ("marc",), range(2))
    for given, said in (("two", "MARC has not the seeds 0 to 4"), ("none", "no finished runs")):
        with pytest.raises(SystemExit, match="2"):
            run("seeds_of_one_loss.py", [tmp_path / given], monkeypatch)
        assert said in capsys.readouterr().err


def test_copied_records_are_the_same_results_with_portable_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, out = Results(tmp_path / "results"), tmp_path / "records"
    made_record("marc", 0, results=results)
    made_record("oml", 0, results=results, error="killed", scores=None)
    (tmp_path / "results" / "splits").mkdir()
    (tmp_path / "results" / "splits" / "ucm.json").write_text("{}")
    monkeypatch.setenv("MARCIR_SHARED", "/nowhere")
    for new in (1, 0):
        run("copy_records.py", [results.path, out], monkeypatch)
        assert capsys.readouterr().out == f"{out}: {new} new records\n"
    (copied,) = Results(out).records()
    (source,) = (record for record in results.records() if record.done)
    assert copied.scores == source.scores
    assert copied.config["data"]["root"] == "$MARCIR_SHARED/to/be/found"
    assert copied.config["data"]["split"] == "splits/ucm.json"
    assert (out / "splits" / "ucm.json").exists()
