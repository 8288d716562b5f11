"""`marcir report`: its numbers are those of the records, and it says what they mean."""

import csv
import json
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.stats import ttest_ind

from marcir.catalog import LOSSES
from marcir.cli import main
from marcir.data.archive import open_archive
from marcir.data.split import draw_split
from marcir.errors import DataError
from marcir.experiments.record import COMPARISON, Record, Results
from marcir.experiments.report.assemble import Report, report
from marcir.experiments.report.runs import group_records
from marcir.experiments.report.significance import compare_methods
from marcir.metrics.retrieval_metrics import METRICS
from marcir.metrics.retrieval_scores import retrieval_scores
from marcir.types import Embeddings
from report_records import made_ablations, made_comparison, made_record, made_scores, save_pixel
from test_cli import refusal

PUBLISHED = {
    "supcon-all": "SupCon ALL", "supcon-any": "SupCon ANY", "lbase": "LBase", "lproto": "LProto",
    "lmsc": "LMsc", "oml": "OML", "mulsupcon": "MulSupCon", "wg-mulsupcon": "Wg-MulSupCon",
    "sim-dis": "Sim-Dis", "l-wo-reg": "L-W/O-Reg", "lreg": "LReg", "marc": "MARC", "wg-marc": "Wg-MARC",
    "marc-calibrated": "Calibrated MARC (ours)", "marc-proto": "Prototype MARC (ours)",
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All losses with three seeds, and ablations."""
    made = made_comparison(tmp_path_factory.mktemp("results"))
    made_ablations(made)
    return made


@pytest.fixture(params=["unrendered", pytest.param("rendered", marks=pytest.mark.slow)])
def figures(request: pytest.FixtureRequest) -> None:
    """Figures are only composed, and in a slow test rendered too."""
    if request.param == "unrendered":
        request.getfixturevalue("unrendered")


@pytest.fixture(scope="module")
def written(results: Results) -> Report:
    """The report of `results`; its figures are not rendered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", save_pixel)
        return report(results.path)


def rows_of(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def page_of(done: Report) -> str:
    return done.page.read_text("utf-8")


def table_of(done: Report, name: str, ending: str) -> Path:
    return done.page.parent / "tables" / f"{name}.{ending}"


@cache
def contents_of(folder: Path) -> list[dict[str, Any]]:
    """The bare JSON of all records."""
    return [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))]


def seed_values(results: Results, study: str, method: str, column: str) -> list[float]:
    """A column of each seed, in percent, from the bare JSON files."""
    found = {}
    for content in contents_of(results.path / "records" / study):
        if content["method"] == method and content["scores"] is not None:
            values = [value for value in content["scores"]["queries"][column] if value is not None]
            found[content["seed"]] = 100 * math.fsum(values) / len(values)
    return [found[seed] for seed in sorted(found)]


def method_means(results: Results, column: str) -> dict[str, float]:
    """A column of every method, mean over seeds, in percent."""
    return {
        name: statistics.fmean(seed_values(results, COMPARISON, loss, column))
        for loss, name in PUBLISHED.items()
    }


# ---- The numbers ---------------------------------------------------------------------------------


def test_every_number_of_the_comparison_is_that_of_the_records_in_every_format(
    results: Results, written: Report
) -> None:
    rows = {row[""]: row for row in rows_of(table_of(written, "ucm-comparison", "csv"))}
    texts = [table_of(written, "ucm-comparison", ending).read_text("utf-8") for ending in ("md", "tex")]
    texts.append(page_of(written))
    for method, name in PUBLISHED.items():
        for column in METRICS:
            values = seed_values(results, COMPARISON, method, column)
            mean, sd = statistics.fmean(values), statistics.stdev(values)
            assert float(rows[name][column]) == pytest.approx(mean, abs=1e-5)
            assert float(rows[name][f"{column} sd"]) == pytest.approx(sd, abs=1e-5)
            for text, between in zip(texts, (" ± ", r" $\pm$ ", " ± "), strict=True):
                line = next(line for line in text.splitlines() if name in line and between in line)
                assert f"{mean:.1f}{between}{sd:.1f}" in line


def test_tails_seeds_and_costs_are_those_of_the_records(results: Results, written: Report) -> None:
    rows = {row[""]: row for row in rows_of(table_of(written, "ucm-comparison", "csv"))}
    contents = contents_of(results.path / "records" / COMPARISON)
    for method, name in PUBLISHED.items():
        own = [each for each in contents if each["method"] == method]
        tails = [100 * each["scores"]["tail"] for each in own]
        assert float(rows[name]["tail"]) == pytest.approx(statistics.fmean(tails), abs=1e-5)
        assert rows[name]["seeds"] == "3"
        assert float(rows[name]["training, s"]) == pytest.approx(101)
        step = 2 + list(LOSSES).index(method) / 10
        ratio = step / (2 + list(LOSSES).index("mulsupcon") / 10)
        assert float(rows[name]["loss step, ms"]) == pytest.approx(step, abs=1e-5)
        assert float(rows[name]["ratio to MulSupCon"]) == pytest.approx(ratio, abs=1e-5)


def test_the_best_is_bold_the_second_underlined_and_ranks_are_means_over_columns(
    results: Results, written: Report
) -> None:
    rows = [
        row for row in rows_of(table_of(written, "ucm-comparison", "csv")) if row["group"] != "references"
    ]
    means = {column: method_means(results, column) for column in METRICS}
    ranks: dict[str, list[int]] = {row[""]: [] for row in rows}
    for column in METRICS:
        order = sorted(means[column], key=lambda name: -means[column][name])
        marks = {row[""]: row[f"{column} mark"] for row in rows if row[f"{column} mark"]}
        shown = {name: f"{means[column][name]:.1f}" for name in order}
        best, second = list(dict.fromkeys(shown.values()))[:2]
        assert marks == {
            name: "best" if text == best else "second"
            for name, text in shown.items()
            if text in (best, second)
        }
        for place, name in enumerate(order, start=1):
            ranks[name].append(place)
    for row in rows:
        assert float(row["mean rank"]) == pytest.approx(statistics.fmean(ranks[row[""]]), abs=1e-5)
    best = max(means["nDCG@100"], key=lambda name: means["nDCG@100"][name])
    value = f"{means['nDCG@100'][best]:.1f}"
    for ending, wanted in (("md", rf"\*\*{value} ± [\d.]+\*\*"), ("tex", rf"\\textbf\{{{value} ")):
        assert re.search(wanted, table_of(written, "ucm-comparison", ending).read_text("utf-8"))
    assert f"<strong>{value} ± " in page_of(written)


def test_rows_stand_in_the_catalogs_order_after_the_references_and_ours_apart(written: Report) -> None:
    rows = rows_of(table_of(written, "ucm-comparison", "csv"))
    assert [row[""] for row in rows] == ["chance", "oracle", "untrained", *PUBLISHED.values()]
    assert [row["group"] for row in rows] == ["references"] * 3 + ["the paper's losses"] * 13 + ["ours"] * 2


def test_references_are_means_over_seeds(results: Results, written: Report) -> None:
    by_seed = {}
    for content in contents_of(results.path / "records" / COMPARISON):
        by_seed[content["seed"]] = content["references"]["untrained"]["wAP@100"]
    row = next(row for row in rows_of(table_of(written, "ucm-comparison", "csv")) if row[""] == "untrained")
    assert len(by_seed) == 3
    assert float(row["wAP@100"]) == pytest.approx(100 * statistics.fmean(by_seed.values()), abs=1e-5)


@pytest.mark.usefixtures("figures")
def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    made = made_comparison(tmp_path / "results", ["mulsupcon", "marc", "marc-calibrated"], seeds=[0, 1])
    first, second = (report(made.path, tmp_path / name) for name in ("first", "second"))
    assert [path.name for path in first.tables] == [path.name for path in second.tables]
    for one, other in zip(first.tables, second.tables, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert page_of(first) == page_of(second)


# ---- What it says --------------------------------------------------------------------------------


def test_the_winner_is_named_with_the_margin(results: Results, written: Report) -> None:
    text = page_of(written)
    means = method_means(results, "nDCG@100")
    best, second = sorted(means, key=lambda name: -means[name])[:2]
    margin = f"{means[best] - means[second]:.1f}"
    assert means[best] - means[second] > 0.1  # else it would have more digits
    seeds = [seed_values(results, COMPARISON, loss, "nDCG@100") for loss in ("marc-calibrated", "wg-marc")]
    assert (best, second) == (PUBLISHED["marc-calibrated"], PUBLISHED["wg-marc"])
    assert means[best] - means[second] < math.hypot(*map(statistics.stdev, seeds))
    assert (
        f"Highest nDCG@100: {best} with {means[best]:.1f}, {margin} points (no more than seeds of one method "
        f"differ) above the next, {second}." in text
    )
    assert "Best by mean rank over the seven columns: Calibrated MARC (ours) (1.0)" in text
    assert "15 methods, 3 seeds each, resnet18, 2 epochs, 64 pixels." in text
    assert "Mean ± sample standard deviation of 3 seeds each." in text


@pytest.mark.usefixtures("unrendered")
def test_mean_ranks_over_two_datasets_are_those_of_the_methods_that_both_have(tmp_path: Path) -> None:
    results = Results(tmp_path)
    strengths = {"lbase": (0.2, 2.0), "marc": (0.5, 0.5), "oml": (2.0, 0.2), "lmsc": (1.0, None)}
    for loss, (first, second) in strengths.items():
        made_record(loss, 0, first, results=results)
        if second is not None:
            made_record(loss, 0, second, results=results, dataset="ml-aid", image_side=150)
    rows = rows_of(table_of(report(tmp_path), "overall", "csv"))
    ranks = {row[""]: [float(row[name]) for name in list(row)[-2:]] for row in rows}
    assert ranks == {"LBase": [1, 3], "MARC": [2, 2], "OML": [3, 1]}
    assert [float(row["all datasets"]) for row in rows] == [2, 2, 2]
    assert list(rows[0])[-2] == "ML-AID (150 px)"


@pytest.mark.usefixtures("unrendered")
def test_the_time_of_a_loss_step_is_left_out_where_the_machine_was_busy(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for loss in ("mulsupcon", "marc"):
        made_record(loss, 0, 0.5, results=results, timed_idle=False)
    done = report(tmp_path)
    assert "A loss step takes" not in page_of(done)
    assert {row["loss step, ms"] for row in rows_of(table_of(done, "ucm-comparison", "csv"))} == {""}


def test_one_seed_has_no_spread_and_says_so(tmp_path: Path) -> None:
    results = made_comparison(tmp_path, ["mulsupcon", "marc"], seeds=[0])
    done = report(results.path)
    assert "±" not in table_of(done, "ucm-comparison", "csv").read_text("utf-8")
    markdown = table_of(done, "ucm-comparison", "md").read_text("utf-8")
    assert "One seed each: the spread between seeds is unknown." in markdown
    assert "One seed: the spread between seeds is unknown" in page_of(done)


@pytest.mark.usefixtures("unrendered")
def test_a_marc_that_loses_is_said_to_lose(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for seed in (0, 1):
        made_record("lbase", seed, 2.0, results=results, references={"untrained": {"nDCG@100": 0.99}})
        made_record("marc", seed, 0.1, results=results, references={"untrained": {"nDCG@100": 0.99}})
    text = page_of(report(tmp_path))
    assert "MARC against the best baseline of each column: worse in 7 of 7 columns." in text
    assert text.count("Below the untrained backbone") == 1
    assert "Below the untrained backbone after training: LBase (nDCG@100); MARC (nDCG@100)." in text
    assert "Places by mean rank, of 2: MARC 2." in text


@pytest.mark.usefixtures("unrendered")
def test_equal_methods_are_level_and_ours_meets_marc(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for loss in ("lbase", "marc", "marc-calibrated"):
        for seed in (0, 1):
            made_record(loss, seed, 0.5, results=results)
    done = report(tmp_path)
    for name in ("marc-against-best", "marc-calibrated-against-best", "marc-calibrated-against-marc"):
        rows = rows_of(table_of(done, f"ucm-{name}", "csv"))
        assert [row["verdict"] for row in rows] == ["level"] * 7
        for test in ("p of queries", "p of seeds", "Holm p"):
            assert [float(row[test]) for row in rows] == [1.0] * 7


@pytest.mark.usefixtures("unrendered")
def test_one_seed_decides_nothing_however_large_the_difference(tmp_path: Path) -> None:
    made_record("lbase", 0, 2.0, results=Results(tmp_path))
    made_record("marc", 0, 0.1, results=Results(tmp_path))
    done = report(tmp_path)
    rows = rows_of(table_of(done, "ucm-marc-against-best", "csv"))
    assert [(row["verdict"], row["p of seeds"], row["Holm p"]) for row in rows] == [("open", "", "")] * 7
    assert all(float(row["p of queries"]) < 0.01 for row in rows)
    assert "MARC against the best baseline of each column: open in 7 of 7 columns." in page_of(done)


def test_two_draws_of_one_method_are_rarely_said_to_differ(tmp_path: Path) -> None:
    """As many seeds for each, and nothing but seeds between them."""
    verdicts = []
    for trial in range(6):
        made = Results(tmp_path / str(trial))
        for seed in range(4):
            made_record("lbase", seed, results=made, scores=made_scores(0.5, 100 * trial + seed))
            made_record("marc", seed, results=made, scores=made_scores(0.5, 100 * trial + 50 + seed))
        (compared,) = compare_methods(group_records(made.records())["ucm"][0])
        verdicts += [column.verdict for column in compared.columns]
    assert verdicts.count("level") >= len(verdicts) - 2


def test_significance_pairs_queries_over_shared_seeds_and_corrects_the_larger_p(
    results: Results, written: Report
) -> None:
    rows = rows_of(table_of(written, "ucm-marc-against-best", "csv"))
    baselines = [loss for loss in PUBLISHED if "marc" not in loss]
    larger = [max(float(row["p of queries"]), float(row["p of seeds"])) for row in rows]
    order = sorted(range(7), key=lambda place: larger[place])
    expected, least = [0.0] * 7, 0.0
    for step, place in enumerate(order):
        least = max(least, min(1.0, (7 - step) * larger[place]))
        expected[place] = least
    for place, row in enumerate(rows):
        seeds = {loss: seed_values(results, COMPARISON, loss, row[""]) for loss in [*baselines, "marc"]}
        means = {loss: statistics.fmean(seeds[loss]) for loss in baselines}
        best = max(means, key=lambda loss: means[loss])
        own = statistics.fmean(seeds["marc"])
        assert row["against"] == PUBLISHED[best]
        assert float(row["difference"]) == pytest.approx(own - means[best], abs=1e-4)
        assert float(row["95 % from"]) <= float(row["difference"]) <= float(row["to"])
        welch = ttest_ind(seeds["marc"], seeds[best], equal_var=False).pvalue
        assert float(row["p of seeds"]) == pytest.approx(welch, abs=1e-5)
        assert float(row["Holm p"]) == pytest.approx(expected[place], abs=1e-5)


@pytest.mark.usefixtures("unrendered")
def test_the_best_baseline_is_the_best_on_the_seeds_that_are_compared(tmp_path: Path) -> None:
    made = Results(tmp_path)
    for seed, strengths in enumerate([(1.0, 0.5), (0.1, 2.0), (0.1, 2.0)]):
        for loss, strength in zip(("lbase", "oml"), strengths, strict=True):
            made_record(loss, seed, strength, results=made)
    made_record("lmsc", 7, 3.0, results=made)  # the best of all, with no seed of MARC's
    made_record("marc", 0, 0.3, results=made)
    rows = rows_of(table_of(report(tmp_path), "ucm-marc-against-best", "csv"))
    assert {row["against"] for row in rows} == {"LBase"}


@pytest.mark.usefixtures("unrendered")
def test_a_better_baseline_with_fewer_seeds_is_not_passed_over(tmp_path: Path) -> None:
    made = Results(tmp_path)
    for loss, strength, seeds in (("lbase", 0.5, 3), ("oml", 1.0, 2), ("lmsc", 2.0, 1), ("marc", 0.3, 3)):
        for seed in range(seeds):
            made_record(loss, seed, strength, results=made)
    table = table_of(report(tmp_path), "ucm-marc-against-best", "csv")
    assert {row["against"] for row in rows_of(table)} == {"OML"}  # one seed alone, LMsc's, gives no verdict


def test_runs_that_were_not_judged_alike_are_refused_by_their_names(tmp_path: Path) -> None:
    made = Results(tmp_path)
    made_record("marc", 0, results=made)
    made_record("lbase", 1, results=made, split_checksum="d" * 64)
    with pytest.raises(DataError, match=r"ucm-lbase-seed1 and ucm-marc-seed0 cannot share .* split_checksum"):
        report(tmp_path)
    made_record("lbase", 1, results=made, judged_by="e" * 64)
    with pytest.raises(DataError, match=r"judged_by is e{12} and b{12}"):
        report(tmp_path)


@pytest.mark.usefixtures("unrendered")
def test_other_datasets_and_studies_may_have_other_splits(tmp_path: Path) -> None:
    made = Results(tmp_path)
    made_record("marc", 0, results=made)
    made_record("marc", 0, results=made, dataset="whdld", split_checksum="d" * 64)
    made_record("marc", 0, results=made, study="lr", setting={"lr": 0.1}, split_checksum="d" * 64)
    done = report(tmp_path)
    assert [table.name for table in done.comparisons] == ["ucm-comparison", "whdld-comparison"]


@pytest.mark.usefixtures("unrendered")
def test_failed_runs_are_listed_with_their_error(tmp_path: Path) -> None:
    made = made_comparison(tmp_path, ["mulsupcon", "marc"], seeds=[0, 1])
    failed = Record(COMPARISON, "ucm", "oml", "oml", {}, 0, {}, "", "", error="the loss is <nan>.")
    made.save(failed)
    done = report(tmp_path)
    assert "OML" not in [row[""] for row in rows_of(table_of(done, "ucm-comparison", "csv"))]
    assert "Failed: OML, seed 0: the loss is &lt;nan&gt;." in page_of(done)
    markdown = table_of(done, "ucm-comparison", "md").read_text("utf-8")
    assert r"Failed: OML, seed 0: the loss is \<nan>." in markdown
    assert "1 of 5 runs failed" in page_of(done)


def test_a_folder_where_all_failed_still_becomes_a_page(tmp_path: Path) -> None:
    Results(tmp_path).save(Record(COMPARISON, "ucm", "oml", "oml", {}, 0, {}, "", "", error="no memory."))
    assert "no run has finished" in page_of(report(tmp_path))


@pytest.mark.usefixtures("unrendered")
def test_runs_that_differ_in_more_than_the_loss_are_warned_of(tmp_path: Path) -> None:
    made = Results(tmp_path)
    made_record("marc", 0, results=made)
    made_record("lbase", 0, results=made, config={"train": {"epochs": 99, "seed": 0}})
    assert "WARNING: the runs differ in more than their loss: train.epochs is 2 and 99." in page_of(
        report(tmp_path)
    )


HOSTILE = "<b>MARC</b> 50 % | a_b & $1"
# Titles, and how they are written in LaTeX and in Markdown.
TITLES = {
    "[a](b)": ("{[}a](b)", r"\[a\](b)"),  # \\ before a [ takes it for a length
    "*c*": ("{*}c{*}", r"\*c\*"),
    r"d\|e": (r"d\textbackslash{}\textbar{}e", r"d\\\|e"),
    "`f` $g$": (r"`f` \$g\$", r"\`f\` \$g\$"),
}


@pytest.fixture(scope="module")
def titled(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A report of methods with titles of their own."""
    made = Results(tmp_path_factory.mktemp("titled"))
    for title in ("marc", HOSTILE, *TITLES):
        made_record("marc", 0, results=made, method=title)
    return report(made.path)


def test_rows_with_a_title_of_their_own_keep_it_whatever_is_in_it(titled: Report) -> None:
    assert "&lt;b&gt;MARC&lt;/b&gt; 50 % | a_b &amp; $1" in page_of(titled)
    assert "<b>MARC" not in page_of(titled)
    latex = table_of(titled, "ucm-comparison", "tex").read_text("utf-8")
    assert r"\textless{}/b\textgreater{} 50 \% \textbar{} a\_b \& \$1" in latex
    assert r"\<b>MARC\</b> 50 % \| a\_b & \$1" in table_of(titled, "ucm-comparison", "md").read_text("utf-8")
    groups = {row[""]: row["group"] for row in rows_of(table_of(titled, "ucm-comparison", "csv"))}
    assert groups["MARC"] == "the paper's losses"
    for title in (HOSTILE, *TITLES):
        assert groups.pop(title) == "other settings"
    assert "other settings" not in groups.values()


@pytest.mark.parametrize("title", TITLES)
def test_titles_stay_what_they_are_in_latex_and_markdown(titled: Report, title: str) -> None:
    latex, markdown = TITLES[title]
    assert f"\n{latex} & " in table_of(titled, "ucm-comparison", "tex").read_text("utf-8")
    assert f"\n| {markdown} | 1 |" in table_of(titled, "ucm-comparison", "md").read_text("utf-8")


@pytest.mark.usefixtures("unrendered")
def test_two_rows_with_one_name_are_both_ranked(tmp_path: Path) -> None:
    made_record("marc", 0, 0.9, results=Results(tmp_path))
    made_record("marc", 0, 0.2, results=Results(tmp_path), method="MARC")
    assert "Best by mean rank over the seven columns: MARC (1.0), then MARC (2.0)." in page_of(
        report(tmp_path)
    )


@pytest.mark.usefixtures("unrendered")
def test_the_versions_and_the_commits_of_all_runs_are_named(tmp_path: Path) -> None:
    versions = {"marcir": "0.2.0", "commit": "1234567+"}
    made_record("marc", 0, 0.9, results=Results(tmp_path))
    made_record("marc", 1, 0.9, results=Results(tmp_path), versions=versions)
    text = "Run with commit 1234567+, marcir 0.1.0, marcir 0.2.0, torch 2.0."
    assert text in page_of(report(tmp_path))


# ---- The paper and the ablations -----------------------------------------------------------------


def test_the_papers_rows_stand_beside_ours_with_what_must_be_known(written: Report) -> None:
    text = table_of(written, "ucm-paper", "md").read_text("utf-8")
    assert "paper, DLRSD: same images, other labels" in text
    assert "| MARC | paper | 72.14 | 75.17 | 28.95 | 14.28 | 6.85 | 73.92 | 16.13 |" in text
    assert "| MARC | here | " in text
    assert "those columns are no target" in text


@pytest.mark.usefixtures("unrendered")
def test_an_ablation_marks_what_validation_chose_and_never_what_test_would(tmp_path: Path) -> None:
    made = Results(tmp_path)
    strong = made_record("marc", 0, 2.0, study="schedule", setting={"schedule": "step"}, results=made)
    made_record(
        "marc", 0, 0.2, study="schedule", setting={"schedule": "cosine"}, results=made,
        validation={"nDCG@100": 0.999},
    )  # fmt: skip
    assert strong.validation["nDCG@100"] < 0.999
    done = report(tmp_path)
    rows = rows_of(table_of(done, "ucm-schedule", "csv"))
    chosen = {row["schedule"]: row["validation nDCG@100 mark"] for row in rows}
    assert chosen == {"cosine": "chosen", "step": ""}
    assert "validation chose schedule = cosine with nDCG@100 99.9 (all settings: " in page_of(done)
    assert "2 of the 6 settings of this study." in page_of(done)


def test_every_setting_of_an_ablation_has_its_numbers(results: Results, written: Report) -> None:
    rows = rows_of(table_of(written, "ucm-alpha-beta-t", "csv"))
    assert [(row["alpha"], row["beta"]) for row in rows] == [
        (alpha, beta) for alpha in ("0", "0.5", "1.5") for beta in ("0", "0.1", "1")
    ]
    record = results.load("alpha-beta-t", "ucm-marc-alpha=0.5-beta=0.1-seed0")
    assert record is not None
    assert record.scores is not None
    row = next(row for row in rows if (row["alpha"], row["beta"]) == ("0.5", "0.1"))
    for column in METRICS:
        assert float(row[column]) == pytest.approx(100 * record.scores[column], abs=1e-5)
    assert float(row["validation nDCG@100"]) == pytest.approx(100 * record.validation["nDCG@100"], abs=1e-5)
    assert float(row["tail"]) == pytest.approx(100 * record.scores.tail, abs=1e-5)


def test_the_papers_ablations_stand_under_ours(written: Report) -> None:
    assert "highest, at alpha=1.5 beta=1.0" in table_of(written, "ucm-alpha-beta-t-paper", "md").read_text(
        "utf-8"
    )
    pretraining = table_of(written, "ucm-pretraining", "md").read_text("utf-8")
    assert "| Wg-MARC | no | - | - | 71.43 | 74.85 |" in pretraining


FIGURES = {
    "ucm-comparison.png",
    "ucm-tail.png",
    "ucm-map.png",
    "ucm-alpha-beta-t-marc-map.png",
    "ucm-alpha-beta-t-marc-curves.png",
    "ucm-tau-curves.png",
    "ucm-lr-radar.png",
    "ucm-pretraining-settings.png",
    "ucm-never-heard-of-settings.png",
}


def test_every_shape_of_study_has_its_figures(written: Report) -> None:
    assert {path.name for path in written.figures} == FIGURES
    assert all(path.exists() for path in written.figures)


@pytest.mark.slow
def test_every_figure_is_rendered(results: Results, tmp_path: Path) -> None:
    done = report(results.path, tmp_path)
    assert {path.name for path in done.figures} == FIGURES
    for path in done.figures:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert min(picture.size) > 200
    assert len(re.findall('src="data:image/png;base64,', page_of(done))) == len(FIGURES)


# ---- Pictures of the archive ---------------------------------------------------------------------


def made_on(scenes: Path, folder: Path) -> Results:
    """Runs on the generated scenes, whose folder is there."""
    archive = open_archive("manifest", scenes)
    results, split = Results(folder), draw_split(archive, 0)
    split.save(results.split_file("manifest"))
    places = [position for part in ("validation", "test") for position in split.positions(archive, part)]
    y, ids = archive.labels[places].numpy(), tuple(archive.ids[place] for place in places)
    for loss in ("lbase", "marc", "marc-calibrated"):
        vectors = y + np.random.default_rng(len(loss)).normal(size=y.shape)
        made = made_record(
            loss,
            dataset="manifest",
            config={"data": {"name": "manifest", "root": str(scenes)}, "loss": {"name": loss}},
            split_checksum=split.checksum,
            scores=retrieval_scores(vectors, y, ids=ids, label_names=archive.vocabulary.names),
            labels=tuple(map(tuple, archive.vocabulary.decode(archive.labels[places]))),
        )
        results.save(made, Embeddings(ids, vectors))
    return results


@pytest.mark.usefixtures("own_cache", "figures")
def test_an_archive_that_is_there_is_shown(scenes: Path, tmp_path: Path) -> None:
    done = report(made_on(scenes, tmp_path / "results").path)
    names = {path.name.removeprefix("manifest-") for path in done.figures}
    assert {"found-median.png", "found-rare.png", "influence.png", "samples.png", "map.png"} <= names
    text = page_of(done)
    assert "the median query by the mean nDCG@100 of these methods" in text
    assert "With the overlap the temperature of MARC falls." in text
    assert "With the overlap the temperature of Calibrated MARC (ours) rises." in text


@pytest.mark.usefixtures("own_cache", "unrendered")
def test_an_archive_is_found_below_an_environment_variable(
    scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = made_on(scenes, tmp_path / "results")
    monkeypatch.setenv("ARCHIVES", str(scenes.parent))
    for record in results.records():
        data = {**record.config["data"], "root": f"$ARCHIVES/{scenes.name}"}
        results.save(replace(record, config={**record.config, "data": data}))
    names = {path.name.removeprefix("manifest-") for path in report(results.path).figures}
    assert {"found-median.png", "influence.png", "samples.png"} <= names


@pytest.mark.usefixtures("own_cache", "unrendered")
def test_a_split_that_the_plan_brought_is_found(scenes: Path, tmp_path: Path) -> None:
    results = made_on(scenes, tmp_path / "results")
    brought = results.split_file("manifest").rename(tmp_path / "brought.json")
    for record in results.records():
        data = {**record.config["data"], "split": str(brought)}
        results.save(replace(record, config={**record.config, "data": data}))
    assert "manifest-influence.png" in {path.name for path in report(results.path).figures}


def test_an_archive_that_is_not_there_is_left_out_with_a_word(written: Report) -> None:
    text = page_of(written)
    assert "are left out: the archive&#x27;s folder /nowhere/to/be/found is not there." in text


@pytest.mark.usefixtures("unrendered")
def test_vectors_that_were_not_kept_are_left_out_with_a_word(tmp_path: Path) -> None:
    Results(tmp_path).save(made_record("marc"))
    assert "Maps are left out" in page_of(report(tmp_path))


# ---- The command ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("unrendered")
def test_the_command_prints_the_comparison_and_where_things_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_comparison(tmp_path / "results", ["mulsupcon", "marc"], seeds=[0, 1])
    assert main(["report", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"MARC +2 +\d\.\d\d +(\*\*|_)?\d\d\.\d", printed)
    assert "**" in printed
    assert f"{tmp_path / 'out' / 'report.html'}: the whole report in one file" in printed
    assert (tmp_path / "out" / "report.html").exists()
    assert not (tmp_path / "results" / "report").exists()


def test_a_folder_without_results_is_refused_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, "report", "--results", str(tmp_path))
    assert said.endswith(
        f"no results. Make some with: marcir benchmark --config PLAN.yaml --results {tmp_path}"
    )


def test_one_run_twice_is_refused(tmp_path: Path) -> None:
    made = Results(tmp_path)
    made_record("marc", 0, results=made)
    file = made.record_file(COMPARISON, "ucm-marc-seed0")
    file.with_name("copy.json").write_bytes(file.read_bytes())
    with pytest.raises(DataError, match="two records of ucm-marc-seed0. Remove one"):
        report(tmp_path)


def walked(text: str) -> Iterator[str]:
    yield from re.findall(r'(?:src|href|url)\s*[=(]\s*"?([^">)]*)', text)


def test_the_page_asks_for_nothing_from_outside(written: Report) -> None:
    text = page_of(written)
    assert "<script" not in text
    assert all(link.startswith(("data:", "#")) for link in walked(text))
    assert len(re.findall('src="data:image/png;base64,', text)) == len(written.figures)
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in walked(text) if link.startswith("#")} <= set(ids)
