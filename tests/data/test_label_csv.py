"""Label tables: both forms, and every mistake with its line."""

from pathlib import Path

import pytest

from marcir.data.images import SUFFIXES
from marcir.data.label_csv import read_label_table
from marcir.errors import DataError


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "labels.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        "path,labels\na.png,road;tree\nb.png,\n",
        "path,road,tree\na.png,1,1\nb.png,0,0\n",
        "\ufeffpath,labels\na.png,road;tree\nb.png,\n",
        "path,labels\r\na.png,road;tree\r\nb.png,\r\n",
        "path,labels\n\na.png,road;tree\n\n\nb.png,\n\n",
        'path,labels\n"a.png"," road ; tree ;road"\nb.png,""\n',
        "PATH,Labels\na.png,road;tree\nb.png,;;",
        "id,scene,x,labels\na.png,s,0,road;tree\nb.png,s,1,\n",
    ],
    ids=[
        "list",
        "matrix",
        "byte-order mark",
        "CRLF",
        "blank lines",
        "quotes and spaces",
        "capitals",
        "windows",
    ],
)
def test_both_forms_are_read_however_they_were_saved(content: str, tmp_path: Path) -> None:
    rows, names, *_ = read_label_table(written(tmp_path, content))
    assert [(row.image, row.labels) for row in rows] == [("a.png", ("road", "tree")), ("b.png", ())]
    assert names == ("road", "tree")


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    rows, *_ = read_label_table(written(tmp_path, "path,labels\n\na.png,road\n\nb.png,tree\n"))
    assert [row.line for row in rows] == [3, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "labels.csv: the file is empty"),
        ("path;labels\na.png;road\n", "line 1: found one column, separated by semicolons\\?"),
        ("path\tlabels\na.png\troad\n", "line 1: found one column, separated by tabs\\?"),
        ("path\na.png\n", "line 1: found one column. Columns are separated by commas"),
        (
            "path,labels\na.png,road,tree\n",
            "line 2: expected 2 columns as in the header, found 3. Separate labels by semicolons: road;tree",
        ),
        (
            "path,labels\na.png,1,0,0,?\n",
            "line 2: expected 2 columns .*, found 5. A table of 0, 1 and . has a column per label: name the",
        ),
        (
            "path,labels\na.png,\nb.png,1\nc.png,0\n",
            "line 3: found 1 where label names are listed. A table of 0 and 1 has a column per label: name",
        ),
        ("path,labels\na.png,road\nb.png,tree;0\n", "line 3: found 0 where .* If it is a label, rename it"),
        ("path,labels\na.png,?1\n", "line 2: found 1 where label names are listed"),
        ("path,labels\na.png;road\n", "line 2: expected 2 .*, found 1, separated by semicolons\\?"),
        ("path|labels\na.png|road\n", "line 1: found one column, separated by bars\\?"),
        ("a.png,1,0\nb.png,1,0\n", "line 1: 'a.png' is an image, not a header. Add a first line: path"),
        ("a,1,1\nb,1,0\n", "line 1: 'a' is an image, not a header"),
        ("a/1.PNG,road\nb.png,tree\n", "line 1: 'a/1.PNG' is an image, not a header"),
        ("\n\na.png,road\n", "line 3: 'a.png' is an image, not a header"),
        (",path,labels\n0,a.png,road\n", "line 1: found the columns '', 'path', 'labels'. A list .* has two"),
        ("labels,path\nroad,a.png\n", "line 1: found the columns 'labels', 'path'. A list of labels has two"),
        (",path,road\n0,a.png,1\n", "line 2: found the image 'a.png' in column 2, 'path'. Images must be"),
        (
            "path,label\na.png,road\n",
            "line 2: label 'label' is 'road'. Use 0, 1 or . .unknown., or name the column `labels`",
        ),
        ('path,labels\n"a.png,road\nb.png,tree\n', "line 2: a cell continues on the next line. Close its"),
        ('path,labels\na.png,"ro\nad"\n', "line 2: a cell continues on the next line. Close its"),
        ("path,labels\na.png,road\n".encode("utf-16-le"), "line 1: not UTF-8. Save the table as UTF-8"),
        ("path,labels\na.png,road\n".encode("utf-16"), "line 1: not UTF-8. Save the table as UTF-8"),
        ("path,labels\na\0.png,road\n", "line 2: not UTF-8. Save the table as UTF-8"),
        ("path,road,tree\na.png,1\n", "line 2: expected 3 columns as in the header, found 2"),
        ("path,road\na.png,1\nb.png,yes\n", "line 3: label 'road' is 'yes'. Use 0, 1 or"),
        ("path,road\na.png,-1\n", "line 2: label 'road' is '-1'. Use 0, 1 or \\? \\(unknown\\)"),
        (
            "path,labels\na.png,road\nb.png,tree\na.png,tree\n",
            "line 4: duplicate image 'a.png', also in line 2",
        ),
        ("path,labels\n,road\n", "line 2: the image's name is missing"),
        ("path,road,\na.png,1,0\n", "line 1: column 3 has no label name"),
        ("path,road,road\na.png,1,0\n", "line 1: duplicate label 'road'"),
        (b"path,labels\na.png,road\nb.png,for\xeat\n", "line 3: not UTF-8. Save the table as UTF-8"),
        ('path,labels\na.png,"road\n' + "x" * 200_000, "line .*field larger than field limit"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_to_do(
    content: str | bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_label_table(written(tmp_path, content))
    assert "labels.csv" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_an_image_in_the_place_of_the_header_is_seen_by_its_ending(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is an image, not a header"):
        read_label_table(written(tmp_path, f"one{suffix},road\ntwo{suffix},tree\n"))


def test_labels_that_are_numbers_are_no_missing_header(tmp_path: Path) -> None:
    rows, names, *_ = read_label_table(written(tmp_path, "path,0,1,2\na.png,1,0,0\n"))
    assert names == ("0", "1", "2")
    assert rows[0].labels == ("0",)


@pytest.mark.parametrize(
    "content",
    [
        "path,labels\na.png,1\nb.png,0;12\n",
        "# unlisted: unknown\npath,labels\na.png,1\nb.png,0\n",
        "id,scene,labels\na.png,s,1\nb.png,s,0\n",
    ],
    ids=["classes that are numbers", "a list that says so", "windows"],
)
def test_0_and_1_are_labels_where_they_cannot_be_cells_of_a_matrix(content: str, tmp_path: Path) -> None:
    rows, names, *_ = read_label_table(written(tmp_path, content))
    assert rows[0].labels == ("1",)
    assert {"0", "1"} <= set(names)


SPELLINGS = {"car": "car", "cars": "car", "ship": "ship"}


@pytest.mark.parametrize(
    "content",
    ["path,Cars,ship\na,1,0\nb,0,0\n", "path,labels\na,CARS\nb,\n", "path,labels\na,cars;car\nb,\n"],
)
def test_known_labels_get_their_one_name(content: str, tmp_path: Path) -> None:
    rows, *_ = read_label_table(written(tmp_path, content), spellings=SPELLINGS)
    assert [row.labels for row in rows] == [("car",), ()]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path,labels\na,car\n\nb,car;shp\n", "labels.csv line 4: unknown label 'shp'. Did you mean 'ship'"),
        ("\npath,car,shp\na,1,0\n", "labels.csv line 2: unknown label 'shp'. Did you mean 'ship'"),
        ("path,car,ship,cars\na,1,0,1\n", "line 1: the columns 'car' and 'cars' are one label. Keep one"),
        ("path,cars\na,1\n", "line 1: no column for ship. Add it"),
    ],
)
def test_what_is_no_known_label_is_named_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_label_table(written(tmp_path, content), spellings=SPELLINGS)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.csv: there is no such label table"):
        read_label_table(tmp_path / "none.csv")


def test_a_folder_in_the_place_of_a_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_label_table(tmp_path)
