"""For each loss the better of several results folders, by validation alone; test scores are not looked at.

    python benchmarks/chosen_on_validation.py results/one results/other --out results/chosen
    marcir report --results results/chosen

Each folder holds the same comparison with another setting, such as the schedule. For each loss that folder
is taken whose mean validation nDCG@100 is higher, over the seeds that all folders have.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean

from marcir.experiments.record import COMPARISON, Record, Results
from marcir.experiments.report.runs import CHOSEN_BY

Runs = dict[tuple[str, str], dict[int, Record]]


def compared(results: Results) -> Runs:
    """The finished runs of a comparison by dataset and method, then by seed."""
    runs: Runs = defaultdict(dict)
    for record in results.records():
        if record.study == COMPARISON and record.done:
            runs[record.dataset, record.method][record.seed] = record
    return runs


def main() -> None:
    """Print what each folder reaches on the validation images, and copy the better records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="folders of marcir benchmark")
    parser.add_argument("--out", type=Path, required=True, help="a new folder for the chosen records")
    given = parser.parse_args()
    if given.out.exists():
        parser.error(f"--out {given.out} exists; name a new folder")
    folders = [Results(path) for path in given.results]
    found = [compared(folder) for folder in folders]
    for folder, runs in zip(folders, found, strict=True):
        if not runs:
            parser.error(f"{folder.path}: no finished runs of a comparison")
        if runs.keys() != found[0].keys():
            other = sorted(runs.keys() ^ found[0].keys())[0]
            parser.error(f"{' '.join(other)} is not in both {folders[0].path} and {folder.path}")
    chosen = Results(given.out)
    print(f"validation {CHOSEN_BY}, mean", *given.results, sep="\t")
    for dataset, method in found[0]:
        own = [runs[dataset, method] for runs in found]
        seeds = set.intersection(*map(set, own))
        if not seeds:
            parser.error(f"{dataset} {method}: no seed is in all folders")
        means = [100 * mean(runs[seed].validation[CHOSEN_BY] for seed in seeds) for runs in own]
        best = max(range(len(folders)), key=means.__getitem__)
        print(f"{dataset} {method} ({len(seeds)} seeds)", *(f"{score:.2f}" for score in means), sep="\t")
        for seed in sorted(seeds):
            record = own[best][seed]
            chosen.save(record, folders[best].vectors(record))


if __name__ == "__main__":
    main()
