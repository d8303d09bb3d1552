"""Targets of other files: read, joined on ids or by row order, and refused with a reason."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from pyarrow import feather

from banditsis import open_data
from banditsis.formats.dataset import find_place
from banditsis.index.writer import build_index
from files import read_all, read_target

N, P = 6, 3
X = np.arange(18.0).reshape(N, P) ** 2 % 7
IDS = np.array([f"s{k}" for k in range(N)])
PAIRS = np.array([f"fam{k // 2}\ts{k}" for k in range(N)])


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_data(frame, suffix, folder, name="x", index=False):
    path = folder / f"{name}.{suffix}"
    if suffix == "frame":
        return frame
    if suffix == "zarr":
        group = zarr.create_group(str(path), attributes={"names": list(frame.columns)})
        group.create_array("X", data=frame.to_numpy(float))
    elif suffix == "feather":
        feather.write_feather(pa.Table.from_pandas(frame, preserve_index=index), path)
    else:
        getattr(frame, f"to_{suffix}")(path, index=index)
    return path


def write_numbers(path, name="y", values=range(N)):
    """A file of ids and numbers, in reverse order."""
    pd.DataFrame({"id": IDS, name: values})[::-1].to_csv(path, index=False)
    return path


def with_ids(ids):
    return pd.DataFrame(X, index=ids, columns=list("abc"))


def check_joined(data, target, names, **options):
    """The target counts the rows of the data, and the features have these names."""
    opened = open_data(data, str(target), **options)
    assert list(opened.features.names) == names
    np.testing.assert_array_equal(opened.target, range(N))
    return opened


TWO, PAIR = ["s0", "s1"], ["f\ts0", "f\ts1"]
READABLE = {  # name, text, column, values, ids
    "commas with a header": ("t.csv", "id,a,b\ns0,1,4\ns1,NA,5\n", "a", [1, np.nan], TWO),
    "by number": ("t.csv", "id,a,b\ns0,1,4\ns1,2,5\n", "3", [4, 5], TWO),
    "tabs": ("t.tsv", "a\tb\n1\t4\n2\t5\n", "b", [4, 5], None),
    "packed": ("t.csv.gz", "a,b\n1,4\n2,5\n", "a", [1, 2], None),
    "semicolons, quotes": ("t.csv", 'a;"the b"\n1;4\n2;5\n', "the b", [4, 5], None),
    "no header": ("t.csv", "1,4\n2,5\n3,6\n", "2", [4, 5, 6], None),
    "one column, no header": ("t.txt", "1.5\n2\n\n-3e2\n", None, [1.5, 2, -300], None),
    "one column with a header": ("t.txt", "y\n1.5\n2\n", None, [1.5, 2], None),
    "one column beside ids": ("t.csv", "sample,y\ns0,1\ns1,2\n", None, [1, 2], TWO),
    "byte order mark": ("t.csv", "\ufeffa,b\n1,4\n", "a", [1], None),
    "labels": ("t.csv", "id,kind\ns0,ill\ns1,well\ns2,\n", "kind", ["ill", "well", None], [*IDS[:3]]),
    "labels, no header": ("t.csv", "yes\nno\nyes\nno\n", "1", ["yes", "no", "yes", "no"], None),
    "a nameless index, as pandas writes it": ("t.csv", ",y\ns0,1\ns1,2\n", "y", [1, 2], TWO),
    "PLINK family": ("t.fam", "f s0 0 0 1 1.5\nf s1 0 0 2 -9\n", "phenotype", [1.5, np.nan], PAIR),
    "PLINK phenotypes": ("t.pheno", "FID IID bmi\nf s0 20\nf s1 -9\n", "bmi", [20, np.nan], PAIR),
    "phenotypes, no header": ("t.pheno", "1 1 20\n1 2 21\n", "3", [20, 21], ["1\t1", "1\t2"]),
    "several blanks, quotes": ("t.txt", '  id  "the y"\ns0   1\ns1  2\n', "the y", [1, 2], TWO),
    "two ids in a table": ("t.csv", "FID,IID,y\nf,s0,20\n", None, [20], ["f\ts0"]),
    "decimal commas": ("t.csv", "a;y\n1,5;2,25\n2,5;3,5\n", "y", [2.25, 3.5], None),
    "decimal commas, no header": ("t.csv", "1,5;2,25\n2,5;3,5\n", "2", [2.25, 3.5], None),
    "one column of decimal commas": ("t.csv", "y\n1,5\n-2,5\n", None, [1.5, -2.5], None),
    "bars": ("t.csv", "a|y\n1|2\n3|4\n", "y", [2, 4], None),
    "commas within semicolons": ("t.csv", "a;b, the other;y\n1;2;3\n4;5;6\n", "y", [3, 6], None),
    "tabs in names": ("t.csv", "a,y\tand z\n1,2\n", "y\tand z", [2], None),
}


@pytest.mark.parametrize("name", READABLE)
def test_text_files(name, tmp_path):
    file, text, column, values, ids = READABLE[name]
    read = read_target(write(tmp_path / file, text), column)
    if isinstance(values[0], str):
        assert list(read.values) == values
    else:
        np.testing.assert_array_equal(read.values, values)
    assert (None if read.ids is None else list(read.ids)) == ids


def test_vectors_and_matrices_of_numpy(tmp_path):
    np.save(tmp_path / "v.npy", np.arange(4))
    np.save(tmp_path / "m.npy", np.arange(8).reshape(4, 2))
    np.testing.assert_array_equal(read_target(tmp_path / "v.npy", None).values, range(4))
    store = build_index(np.eye(4), tmp_path / "x.index", target=tmp_path / "v.npy", random_state=0)
    np.testing.assert_array_equal(open_data(store, target="v")[1], range(4))
    np.testing.assert_array_equal(read_target(tmp_path / "m.npy", "2").values, [1, 3, 5, 7])
    with pytest.raises(ValueError, match="several columns"):
        read_target(tmp_path / "m.npy", None)
    with pytest.raises(ValueError, match="has no column 'x'"):
        read_target(tmp_path / "v.npy", "x")
    np.savez(tmp_path / "t.npz", X=X, y=X[:, 0])
    with pytest.raises(ValueError, match=r"t\.npz cannot be a target: it must end in one of \.csv"):
        read_target(tmp_path / "t.npz", "y")


def test_forms_of_a_target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "t.csv", "y\n1\n")
    places = {
        "t.csv:y": (file.relative_to(tmp_path), "y"),
        f"{file}": (file, None),
        "rs123:A": (None, "rs123:A"),
        "s3://bucket/y.csv:a": ("s3://bucket/y.csv", "a"),
        "s3://bucket/y.csv": ("s3://bucket/y.csv", None),
    }
    assert {text: find_place(text) for text in places} == places
    for target in ("gone.csv:y", "gone.npy"):
        with pytest.raises(FileNotFoundError, match=r"the file gone\.\w+ does not exist"):
            find_place(target)


JOINED = {
    "id,y\ns5,50\ns1,10\nother,7\ns3,NA\ns0,0\n": [0, 1, 5],
    "FID IID y\nfam0 s1 10\nfam2 s5 50\n": [1, 5],
    "IID y\ns1 10\ns5 50\n": [1, 5],
}


@pytest.mark.parametrize("text", JOINED)
@pytest.mark.parametrize("ids", [IDS, PAIRS], ids=["ids", "families and individuals"])
def test_joined_on_ids(text, ids, tmp_path):
    opened, rows = open_data(with_ids(ids), f"{write(tmp_path / 't.txt', text)}:y"), JOINED[text]
    np.testing.assert_array_equal(opened.target, 10 * np.array(rows))
    np.testing.assert_array_equal(read_all(opened.features), X[rows])
    np.testing.assert_array_equal(opened.ids, ids[rows])
    assert opened.names == ("y",)
    told = "joined on sample ids: 3 of 6 rows have a value; 1 of its ids are not in the data."
    assert len(rows) == 2 or opened.joined[0].endswith(told)


def test_by_row_order(tmp_path):
    file = write(tmp_path / "t.txt", "\n".join(map(str, range(N))))
    target = open_data(X, str(file))
    assert target.joined[0] == f"{file} was taken in row order."
    np.testing.assert_array_equal(target.target, range(N))
    short = write(tmp_path / "short.txt", "1\n2\n")
    with pytest.raises(ValueError, match=r"2 values for the 6 rows of the data, and .*t\.txt has no sample"):
        open_data(X, str(short))


REFUSED = {
    "no such column": ("id,y\ns1,1\n", "z", "has no column 'z': there are 'id', 'y'"),
    "several columns": ("id,y,z\ns1,1,2\n", None, "has several columns: .*; there are y, z"),
    "ragged": ("id,y\ns1,1\ns2,2,3\n", "y", "has 3 values in line 3 and 2 in the first"),
    "nothing known": ("id,y\ns1,NA\ns2,\n", "y", "no value in any row"),
    "duplicates": ("id,y\ns1,1\ns1,2\n", "y", "sample id 's1' occurs 2 times in .*t.csv"),
    "no match": ("id,y\nA,1\nB,2\n", "y", "no sample id of .* look like 'A', .* like 's0'"),
    "not UTF-8": ("y\nm\xfc\n".encode("latin-1"), None, "not UTF-8 text"),
    "empty": (b"", None, "is empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, tmp_path):
    content, column, message = REFUSED[name]
    file = tmp_path / "t.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        open_data(with_ids(IDS), str(file) if column is None else f"{file}:{column}")


@pytest.mark.parametrize("name", ["id", "Sample", "sample_id", "IID"])
@pytest.mark.parametrize("kind", ["text", "numbers", "leading zeros"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "frame"])
def test_columns_of_ids_in_the_data(tmp_path, name, kind, suffix):
    numbers = np.arange(100, 100 + N)
    ids = {"text": IDS, "numbers": numbers, "leading zeros": [f"{k:03}" for k in range(N)]}[kind]
    frame = pd.DataFrame({"y": np.arange(N) * 1.0, "id": ids})[::-1]  # the ids are not its first column
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = write_data(pd.DataFrame({"a": X[:, 0], name: ids, "b": X[:, 1]}), suffix, tmp_path)
    for target in (tmp_path / "t.csv", f"{tmp_path / 't.csv'}:y"):
        check_joined(data, target, ["a", "b"])


def test_a_pair_of_ids_in_the_data(tmp_path):
    data = write(tmp_path / "x.csv", "FID,IID,a\n1,1,5\n1,2,6\n2,1,7\n")
    write(tmp_path / "t.txt", "FID IID y\n2 1 3\n1 2 2\n1 1 -9.0\n")
    opened = open_data(data, f"{tmp_path / 't.txt'}:y")
    np.testing.assert_array_equal(opened.target, [2, 3])
    np.testing.assert_array_equal(read_all(opened.features), [[6], [7]])
    assert opened.joined[0].endswith(": 2 of 3 rows have a value; -9 counts as missing in it.")


def test_repeated_ids_are_a_feature_where_the_target_has_no_ids(tmp_path):
    data = write(tmp_path / "x.csv", "id,a\n3,1\n3,5\n1,4\n")
    assert open_data(data, write(tmp_path / "t.txt", "1\n2\n3\n")).features.names == ["id", "a"]
    assert open_data(data, "a").features.names == ["id"]
    with pytest.raises(ValueError, match="sample id '3' occurs 2 times in the data"):
        open_data(data, write(tmp_path / "t.csv", "id,y\n1,1\n2,2\n3,3\n"))


INDEXES = {
    "text": pd.Index(IDS),
    "numbers with a name": pd.Index([17, 5, 99, 23, 4, 61], name="customer"),
    "several": pd.MultiIndex.from_arrays([list("pqrpqr"), np.arange(N) // 3], names=["patient", "visit"]),
    "several without names": pd.MultiIndex.from_arrays([IDS, range(N)]),
}


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_the_index_of_pandas(tmp_path, suffix, kind):
    """All its levels are ids, of files as of frames."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]}, index=INDEXES[kind])
    target = pd.DataFrame({"y": np.arange(N) * 1.0}, index=INDEXES[kind])[::-1]
    file = write_data(target, suffix, tmp_path, "t", index=None)
    for data in (frame, write_data(frame, suffix, tmp_path, index=None)):
        for wanted in (file, f"{file}:y"):
            check_joined(data, wanted, ["a", "b"])


def test_ids_on_one_side_alone(tmp_path):
    file = write_numbers(tmp_path / "t.csv")
    with pytest.warns(UserWarning, match=r"t\.csv has sample ids, and the data have none: .*order alone"):
        open_data(X, target=f"{file}:y")
    np.save(tmp_path / "y.npy", np.arange(N))
    with pytest.warns(UserWarning, match=r"the data have sample ids, and .*y\.npy has none") as caught:
        open_data(with_ids(IDS), target=str(tmp_path / "y.npy"))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("file", ["t.pheno", "t.txt", "t.fam"])
def test_minus_nine_as_a_number(tmp_path, file):
    rows = "f s0 -9.0\nf s1 -9\nf s2 -9.5\nf s3 7\n"
    text = rows.replace(" -", " 0 0 1 -").replace(" 7", " 0 0 1 7")
    text = text if file == "t.fam" else "FID IID y\n" + rows
    read = read_target(write(tmp_path / file, text), "phenotype" if file == "t.fam" else "y")
    np.testing.assert_array_equal(read.values, [np.nan, np.nan, -9.5, 7])
    assert read.note == "-9 counts as missing in it"
    plain = read_target(write(tmp_path / "p.csv", "id,y\na,-9\nb,1\n"), "y")
    np.testing.assert_array_equal(plain.values, [-9, 1])


def test_a_column_goes_before_a_file_of_the_same_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "x.csv", "a,price,y.csv\n1,2,3\n4,5,6\n7,8,1\n")
    for name in ("price", "y.csv", "2", "nothing"):
        write(tmp_path / name, "q\n0\n0\n0\n")
    for target, expected in (("price", [2, 5, 8]), ("y.csv", [3, 6, 1]), ("2", [2, 5, 8])):
        np.testing.assert_array_equal(open_data("x.csv", target=target)[1], expected)
    assert open_data("x.csv", "2").joined[0] == "the column 'price' of the data, its column 2."
    with pytest.raises(ValueError, match="nothing has an unknown extension"):
        open_data("x.csv", target="nothing")


def test_counts_of_rows_are_not_joined_off_by_one(tmp_path):
    frame = pd.DataFrame({"id": np.arange(1, N + 1), "a": X[:, 0]})
    data, counted = (write_data(frame, "csv", tmp_path), tmp_path / "counted.csv")
    frame[["a"]].to_csv(counted)  # with a nameless index that counts from 0
    frame[["a"]].to_csv(tmp_path / "t.csv")
    frame.to_csv(tmp_path / "u.csv", index=False)
    with pytest.raises(ValueError, match=r"count rows from 1 in the data and from 0 in .*t\.csv"):
        open_data(data, tmp_path / "t.csv")
    with pytest.raises(ValueError, match=r"count rows from 0 in the data and from 1 in .*u\.csv"):
        open_data(counted, f"{tmp_path / 'u.csv'}:a")


KEYS = {
    "numbers": [17, 5, 99, 23, 4, 61],
    "text": [f"p{k}" for k in (3, 1, 2, 6, 5, 4)],
    "counts": range(1, 7),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "frame", "zarr"])
def test_a_column_of_both_is_the_id_if_it_is_named(tmp_path, kind, suffix):
    """Without ``id_column``, the row order is used with a warning."""
    if (kind, suffix) == ("text", "zarr"):
        return  # a matrix holds no text
    keys = list(KEYS[kind])
    data = write_data(pd.DataFrame({"a": X[:, 0], "customer_id": keys, "b": X[:, 1]}), suffix, tmp_path)
    values = pd.DataFrame({"Customer_ID": keys, "group": 1, "y": np.arange(N) * 1.0}).iloc[[5, 2, 0, 4, 3, 1]]
    for file in (write_data(values, ending, tmp_path, "t") for ending in ("csv", "parquet")):
        opened = check_joined(data, f"{file}:y", ["a", "b"], id_column="customer_id")
        assert opened.joined[0] == f"{file} was joined on sample ids."
        told = r"have a column 'customer_id': .*order alone.* id_column='customer"
        with pytest.warns(UserWarning, match=told):
            np.testing.assert_array_equal(open_data(data, f"{file}:y").target, values["y"])


def test_keys_beside_default_indices(tmp_path):
    """Row numbers that pandas writes are not ids: rows are in their order, with a warning about the key."""
    frame = pd.DataFrame({"patient": KEYS["text"], "a": X[:, 0]})
    target = pd.DataFrame({"patient": KEYS["text"], "y": range(N)})[::-1].reset_index(drop=True)
    file = f"{write_data(target, 'csv', tmp_path, 't', index=True)}:y"
    with pytest.warns(UserWarning, match="have a column 'patient': rows were joined by their order alone"):
        open_data(write_data(frame, "csv", tmp_path, index=True), file)
    frame = frame.set_index("patient")
    for data in (frame, write_data(frame, "parquet", tmp_path, index=True)):
        check_joined(data, file, ["a"])


def test_usual_ids_of_both_precede_other_columns(tmp_path):
    frame = pd.DataFrame({"age": [3, 1, 2, 9, 8, 7], "a": X[:, 0]}, index=pd.Index(IDS, name="who"))
    target = pd.DataFrame({"id": IDS, "age": [7, 8, 9, 1, 2, 3], "y": range(N)})[::-1]
    file = write_data(target, "csv", tmp_path, "t")
    for data in (frame, write_data(frame, "parquet", tmp_path, index=True)):
        check_joined(data, f"{file}:y", ["age", "a"])


def test_shared_measurements_are_not_keys(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0] + 0.25 * np.arange(N), "group": [1, 1, 1, 2, 2, 2], "b": X[:, 1]})
    file = write_data(frame[["a", "group"]].assign(y=range(N)), "csv", tmp_path, "t")
    opened = check_joined(write_data(frame, "csv", tmp_path), f"{file}:y", ["a", "group", "b"])
    assert "row order" in opened.joined[0]


def test_keys_with_many_digits(tmp_path):
    keys = [9_007_199_254_740_993 + k for k in range(3)]
    frame = pd.DataFrame({"customer": keys, "a": [1.0, 2, 4]})
    file = write_data(frame.rename(columns={"a": "y"})[::-1], "csv", tmp_path, "t")
    data, options = (write_data(frame, "zarr", tmp_path), {"target": f"{file}:y", "id_column": "customer"})
    for suffix in ("csv", "parquet", "frame"):
        opened = open_data(write_data(frame, suffix, tmp_path), **options)
        np.testing.assert_array_equal(opened.target, [1, 2, 4])
    with pytest.raises(ValueError, match=r"sample ids such as 900719925474099\d have too many digits"):
        open_data(data, **options)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
def test_columns_of_one_file(tmp_path, suffix):
    """By name or number, with missing values and labels; one of them makes the first line a header."""
    frame = pd.DataFrame({"id": IDS, "a": np.arange(N) * 1.0, "b": [None, *range(1, N)], "c": list("xyzxyz")})
    file = write_data(frame, suffix, tmp_path)
    data = open_data(with_ids(IDS), [f"{file}:{name}" for name in ("3", "c", "a")])
    assert data.names == ("b", "c", "a")
    np.testing.assert_array_equal(data.target[:, 0].astype(float), frame["b"])
    assert data.target[:, 1].tolist() == list("xyzxyz")
    assert data.target[:, 2].tolist() == [*range(N)]


def write_samples(tmp_path):
    """A phenotype and covariates in another order than the data, without s0, and an id that is not there."""
    order = [4, 1, 9, 3, 5, 2]
    table = pd.DataFrame({"IID": [f"s{k}" for k in order], "y": order, "age": [40.0, 10, 90, None, 50, 20]})
    table["sex"], table["w"] = ["f", "m", "f", "m", None, "f"], 1.0
    table.to_csv(tmp_path / "samples.cov", sep="\t", index=False, na_rep="NA")
    return tmp_path / "samples.cov"


def test_a_dataset_has_covariates_weights_and_ids(tmp_path):
    file = write_samples(tmp_path)
    data = open_data(with_ids(IDS), f"{file}:y", covariates=f"{file}:age, sex", sample_weight=f"{file}:w")
    np.testing.assert_array_equal(data.target, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(read_all(data.features), X[1:])
    np.testing.assert_array_equal(data.covariates["age"], [10, 20, np.nan, 40, 50])
    assert data.covariates["sex"].tolist() == ["m", "f", "m", "f", None]
    np.testing.assert_array_equal(data.sample_weight, np.ones(5))
    np.testing.assert_array_equal(data.ids, IDS[1:])
    assert data.names == ("y",)
    assert [" 4 of 6 rows" in how or " 5 of 6 rows" in how for how in data.joined] == [True] * 4
    no_target = open_data(with_ids(IDS), covariates=f"{file}:age")
    assert no_target.target is None
    np.testing.assert_array_equal(no_target.covariates["age"], [np.nan, 10, 20, np.nan, 40, 50])


def test_a_file_alone_is_all_its_covariates(tmp_path):
    """But not the ids, nor what is the target or the weights, by name or by number."""
    file = write_samples(tmp_path)
    for target in ("y", "2"):
        data = open_data(with_ids(IDS), f"{file}:{target}", covariates=file, sample_weight=f"{file}:w")
        assert list(data.covariates) == ["age", "sex"]
    pd.read_csv(file, sep="\t").to_parquet(tmp_path / "samples.parquet")
    data = open_data(with_ids(IDS), covariates=tmp_path / "samples.parquet")
    assert list(data.covariates) == ["y", "age", "sex", "w"]
    only = write_numbers(tmp_path / "only.csv")
    with pytest.raises(ValueError, match=r"only\.csv has no covariates"):
        open_data(with_ids(IDS), f"{only}:y", covariates=only)


@pytest.mark.parametrize("name", ["x.eigenvec", "x.cov", "x.qcovar"])
def test_covariates_of_plink_without_a_header(name, tmp_path):
    """Family and individual come first."""
    lines = [f"fam{k // 2} s{k} {k}.5 {-k}" for k in reversed(range(N))]
    file = write(tmp_path / name, "\n".join(lines))
    data = open_data(with_ids(PAIRS), "a", covariates=file)
    assert list(data.covariates) == ["3", "4"]
    np.testing.assert_array_equal(data.covariates["4"], -np.arange(N))
    np.testing.assert_array_equal(data.ids, PAIRS)


def test_covariates_of_several_files(tmp_path):
    """Names that occur twice keep their files; columns of the data and of arrays are covariates too."""
    first, second = (write_numbers(tmp_path / f"z{k}.csv", "age", k * np.arange(N)) for k in (1, 2))
    np.save(tmp_path / "pcs.npy", X[:, :2])
    np.save(tmp_path / "one.npy", X[:, 0])
    data = open_data(with_ids(IDS), "a", covariates=["b", first, f"{second}:age"])
    assert list(data.covariates) == ["b", f"{first}:age", f"{second}:age"]
    np.testing.assert_array_equal(data.covariates[f"{second}:age"], 2 * np.arange(N))
    np.testing.assert_array_equal(data.covariates["b"], X[:, 1])
    assert data.features.names == ["c"]
    data = open_data(X, "1", covariates=[tmp_path / "pcs.npy", tmp_path / "one.npy"])
    assert list(data.covariates) == ["1", "2", "one.npy"]
    np.testing.assert_array_equal(np.column_stack(list(data.covariates.values())), X[:, [0, 1, 0]])
