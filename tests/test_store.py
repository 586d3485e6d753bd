"""The store: what is written comes back, whoever reads it; and it is a plain Minari dataset."""

from __future__ import annotations

import hashlib
import json
import time
import warnings

import h5py
import minari
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from minari.data_collector import EpisodeBuffer
from stored import ID, block, data_file, flat, same_bits, write
from typer.testing import CliRunner

from smeoffline.data.storage import store, twins
from smeoffline.data.storage.episodes import EpisodeBlock, content_sha256, episode_digest
from smeoffline.errors import DatasetError

ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations", "optimal_actions")


@st.composite
def blocks(draw):
    """A block of any sizes and any float32 values that a dataset may hold."""
    lengths = np.array(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)), np.int64)
    n, steps = len(lengths), int(lengths.max()) + draw(st.integers(0, 2))
    wide, narrow = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    numbers = st.floats(-(2.0**19), 2.0**19, width=32)

    def floats(*shape):
        return draw(hnp.arrays(np.float32, (n, *shape), elements=numbers))

    def flags():
        return draw(hnp.arrays(np.bool_, (n, steps)))

    whole = hnp.arrays(np.int64, n, elements=st.integers(0, 2**63 - 1))
    return EpisodeBlock.of(
        observations=floats(steps + 1, wide),
        actions=floats(steps, narrow),
        rewards=floats(steps),
        terminations=flags(),
        truncations=flags(),
        optimal_actions=floats(steps + 1, narrow),
        log_densities=floats(steps + 1) if draw(st.booleans()) else None,
        lengths=lengths,
        seeds=draw(whole),
        components=draw(whole),
    )


@given(made=blocks(), components=st.booleans())
def test_what_is_written_comes_back_to_the_bit(tmp_path_factory, made, components):
    """Any block is read back bit for bit, by us and by Minari, with seeds, components and lengths."""
    root = tmp_path_factory.mktemp("root")
    widths = made.observations.shape[2], made.actions.shape[2]
    write(made, made, root=root, widths=widths, components=components)
    found = store.read(ID, root=root)
    names = ARRAYS if made.log_densities is None else (*ARRAYS, "log_densities")
    for name in names:
        assert same_bits(getattr(found, name), flat([made, made], name)), name
    assert (found.log_densities is None) == (made.log_densities is None)
    assert found.lengths.tolist() == 2 * made.lengths.tolist()
    assert found.seeds.tolist() == 2 * made.seeds.tolist()
    assert (found.components.tolist() if components else found.components) == (
        2 * made.components.tolist() if components else None
    )
    assert found.numbers.tolist() == list(range(2 * len(made)))
    episodes = list(minari.MinariDataset(found.path / "data").iterate_episodes())
    for name in ("observations", "actions", "rewards", "terminations", "truncations"):
        theirs = np.concatenate([getattr(episode, name) for episode in episodes])
        assert same_bits(theirs, getattr(found, name)), name
    assert same_bits(np.concatenate([e.infos["optimal_action"] for e in episodes]), found.optimal_actions)


def test_an_episode_of_one_step_keeps_its_final_observation():
    """T = 1 gives (s0, a0, r0, s1) exactly, and one action of shape (1, N_a)."""
    made = block([1])
    write(made)
    found = store.read(ID)
    assert same_bits(found.observations, made.observations[0])
    assert same_bits(found.actions, made.actions[0])
    assert same_bits(found.rewards, made.rewards[0])
    (episode,) = minari.load_dataset(ID)
    assert episode.observations.shape == (2, 5)
    assert episode.actions.shape == (1, 2)


@pytest.mark.parametrize("lengths", [[3, 3, 3, 3, 3], [4, 1, 4, 2, 1]])
def test_reading_by_twins_is_reading_by_hdf5(monkeypatch, lengths):
    """Taking addresses from equal headers, and opening every object through HDF5, give the same arrays."""
    write(block(lengths, densities=True), block(lengths[::-1], seed=1, densities=True), components=True)
    opened = []
    real = store.read_episodes.__globals__["hdf5"].open_stored
    monkeypatch.setattr("smeoffline.data.storage.hdf5.open_stored", lambda *args: opened.append(args[1]) or real(*args))
    fast = store.read(ID)
    assert len(opened) == 7 * len(set(lengths))
    monkeypatch.setattr(twins, "header_end", lambda _: None)
    opened.clear()
    slow = store.read(ID)
    assert len(opened) == 7 * 10
    for name in (*ARRAYS, "log_densities", "lengths", "seeds", "components"):
        assert same_bits(getattr(fast, name), getattr(slow, name)), name


def test_the_same_content_gives_the_same_bytes(tmp_path):
    """Written in another second, in other blocks and another place, the files are the same."""
    made = block([3, 1, 2, 3])
    parts = [
        EpisodeBlock(
            **{name: value[at] for name, value in vars(made).items() if value is not None} | {"log_densities": None}
        )
        for at in (slice(0, 1), slice(1, 4))
    ]
    first = write(made, root=tmp_path / "a")
    time.sleep(1.1)  # HDF5 would store times in whole seconds
    second = write(*parts, root=tmp_path / "b")
    assert data_file(first).read_bytes() == data_file(second).read_bytes()
    assert (first / "data/metadata.json").read_bytes() == (second / "data/metadata.json").read_bytes()


def test_many_lengths_need_no_more_memory_than_one_template_file(monkeypatch):
    """When the templates have used up their memory they are made anew, and the episodes are still right."""
    monkeypatch.setattr("smeoffline.data.storage.hdf5._TEMPLATE_BYTES", 1000)
    made = block([*range(1, 12), *range(1, 12)])
    write(made)
    assert same_bits(store.read(ID).actions, flat([made], "actions"))


def test_attributes_are_those_of_minari():
    """An episode has the attributes id, seed and total_steps; component only where it was asked for."""
    made = block([2, 3])
    for components in (False, True):
        folder = write(made, components=components, overwrite=True)
        with h5py.File(data_file(folder)) as file:
            group = file["episode_1"]
            wanted = {"id": 1, "seed": made.seeds[1], "total_steps": 3} | (
                {"component": made.components[1]} if components else {}
            )
            assert dict(group.attrs) == wanted
            assert group["terminations"].dtype == np.bool_


def test_metadata_has_minaris_fields_and_ours():
    """metadata.json has what Minari writes; our object gains schema and content hash, and survives."""
    made = block([2, 3])
    given = {
        "author": {"b", "a"},
        "ref_min_score": 0.0,
        "description": "x",
        "smeoffline": {"task": {"seed": 0}},
    }
    folder = write(made, more=given)
    raw = json.loads((folder / "data" / "metadata.json").read_text())
    assert (raw["total_episodes"], raw["total_steps"], raw["dataset_id"]) == (2, 5, ID)
    assert raw["author"] == ["a", "b"]
    wanted = {"task": {"seed": 0}, "schema": 1, "sha256": content_sha256(made.digests)}
    assert raw["smeoffline"] == store.read(ID).provenance == wanted
    theirs = minari.load_dataset(ID)
    assert theirs.storage.metadata["smeoffline"] == wanted
    theirs.storage.update_metadata({"description": "y"})
    assert store.read(ID).provenance == wanted
    assert theirs.observation_space == minari.serialization.deserialize_space(raw["observation_space"])
    assert theirs.observation_space.shape == (5,)
    assert theirs.action_space.low.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("bad", [{"total_steps": 1}, {"smeoffline": {"sha256": "0"}}, {"x": float("nan")}])
def test_metadata_that_contradicts_the_data_is_a_mistake(minari_root, bad):
    """The caller may not set what the store knows better; then nothing is written."""
    with pytest.raises(ValueError, match=r"store|hash|JSON"):
        write(block([1]), more=bad)
    assert list(minari_root.iterdir()) == []


def test_minari_can_use_a_dataset_in_every_way():
    """Load, sample, filter, split, combine, list, show, delete: stock Minari does them all on ours."""
    made = block([3, 1, 2, 3, 2])
    write(made, dataset_id="sme/deep/a-v0")
    write(block([2, 2], seed=1), dataset_id="sme/deep/b-v0")
    first = minari.load_dataset("sme/deep/a-v0")
    first.set_seed(0)
    assert sorted(e.id for e in first.sample_episodes(5)) == [0, 1, 2, 3, 4]
    assert first.filter_episodes(lambda e: len(e) == 3).total_episodes == 2
    one, two = minari.split_dataset(first, [2, 3], seed=0)
    assert one.total_steps + two.total_steps == first.total_steps == 11
    assert [m["seed"] for m in first.storage.get_episode_metadata([0, 1])] == made.seeds[:2].tolist()
    combined = minari.combine_datasets([first, minari.load_dataset("sme/deep/b-v0")], "both-v0")
    assert (combined.total_episodes, combined.total_steps) == (7, 15)
    assert set(minari.list_local_datasets()) == {"sme/deep/a-v0", "sme/deep/b-v0", "both-v0"}
    assert minari.namespace.list_local_namespaces() == ["sme", "sme/deep"]
    assert minari.namespace.get_namespace_metadata("sme/deep") == {}
    from minari.cli import app

    for command in (["show", "sme/deep/a-v0"], ["list", "local"]):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0, shown.output
        assert "deep" in shown.output
    minari.delete_dataset("sme/deep/a-v0")
    assert [listed.id for listed in store.list_datasets()] == ["both-v0", "sme/deep/b-v0"]


def test_minari_appends_episodes_but_cannot_extend_one():
    """New episodes can be appended by stock Minari; extending an existing one fails, as documented."""
    write(block([2]))
    theirs = minari.load_dataset(ID)
    more = {"rewards": np.zeros(2), "terminations": np.zeros(2, bool), "truncations": np.zeros(2, bool)}
    more |= {"observations": np.zeros((3, 5), np.float32), "actions": np.zeros((2, 2), np.float32)}
    theirs.storage.update_episodes([EpisodeBuffer(id=None, seed=3, **more)])
    found = store.read(ID)
    assert found.lengths.tolist() == [2, 2]
    assert found.optimal_actions is None
    with pytest.raises(TypeError, match="chunked"):
        theirs.storage.update_episodes([EpisodeBuffer(id=0, **more)])


def test_a_dataset_that_minari_combined_is_read():
    """Stock Minari's chunked copy of ours reads to the same arrays; what it drops is None."""
    write(block([3, 1]), dataset_id="sme/a-v0", more={"smeoffline": {"x": 1}})
    write(block([2, 2], seed=1), dataset_id="sme/b-v0")
    parts = [store.read("sme/a-v0"), store.read("sme/b-v0")]
    minari.combine_datasets([minari.load_dataset("sme/a-v0"), minari.load_dataset("sme/b-v0")], "sme/c-v0")
    found = store.read("sme/c-v0")
    for name in ARRAYS:
        assert same_bits(getattr(found, name), np.concatenate([getattr(part, name) for part in parts])), name
    assert (found.seeds, found.components, found.provenance) == (None, None, None)


def foreign(observations, actions, **infos):
    """Write one episode of two steps with stock Minari."""
    buffer = EpisodeBuffer(
        observations=observations,
        actions=actions,
        rewards=[1.0, 2.0],
        terminations=[False, False],
        truncations=[False, True],
        infos=infos,
    )

    def space(values):
        from gymnasium.spaces import Box, Discrete

        values = np.asarray(values)
        return Discrete(9) if values.ndim == 1 else Box(0, 9, values.shape[1:], values.dtype.type)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            "other/set-v0", [buffer], observation_space=space(observations), action_space=space(actions)
        )


def test_a_foreign_dataset_is_read_as_float32():
    """A stock dataset of float64 Boxes is converted; infos that only share our name are left out."""
    observations, actions = np.arange(9.0).reshape(3, 3) / 7, np.arange(4.0).reshape(2, 2) / 3
    foreign(observations, actions, optimal_action=np.zeros(3), other=np.zeros(3))
    found = store.read("other/set-v0")
    assert same_bits(found.observations, observations.astype(np.float32))
    assert same_bits(found.actions, actions.astype(np.float32))
    assert same_bits(found.rewards, np.array([1, 2], np.float32))
    assert found.truncations.tolist() == [False, True]
    assert (found.optimal_actions, found.provenance) == (None, None)


@pytest.mark.parametrize(
    ("observations", "actions", "word"),
    [
        (np.zeros((3, 2, 2)), np.zeros((2, 2)), "observation_space"),
        (np.zeros((3, 2)), np.zeros(2, np.int64), "action_space"),
        (np.zeros((3, 2), np.uint8), np.zeros((2, 2)), "observation_space"),
    ],
)
def test_a_foreign_dataset_of_another_kind_is_refused(observations, actions, word):
    """Images, discrete actions and integer vectors are told apart, in one line that names the space."""
    foreign(observations, actions)
    with pytest.raises(DatasetError, match=word) as told:
        store.read("other/set-v0")
    assert "\n" not in str(told.value)


def test_the_content_hash_is_what_its_documentation_says():
    """The digest is SHA-256 of name, type, shape and bytes of each array, in the documented order."""
    made = block([2, 1], densities=True)
    hashes = []
    for i, steps in enumerate([2, 1]):
        stream = b""
        for name, array, rows in (
            ("observations", made.observations, steps + 1),
            ("actions", made.actions, steps),
            ("rewards", made.rewards, steps),
            ("terminations", made.terminations, steps),
            ("truncations", made.truncations, steps),
            ("infos/optimal_action", made.optimal_actions, steps + 1),
            ("infos/log_density", made.log_densities, steps + 1),
        ):
            kept = array[i, :rows]
            kind = "|b1" if array.dtype == np.bool_ else "<f4"
            stream += f"{name} {kind} {kept.shape}\n".encode() + kept.tobytes()
        hashes.append(hashlib.sha256(stream).digest())
    assert made.digests == hashes
    assert content_sha256(hashes) == hashlib.sha256(hashes[0] + hashes[1]).hexdigest()
    assert content_sha256(hashes) != content_sha256(hashes[::-1])


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "optimal_actions", "log_densities"])
def test_every_bit_counts_for_the_digest(name):
    """The sign of a zero in any array, or a missing array, changes the digest; padding does not."""
    made = block([2], densities=True, steps=3)

    def digest(**changed):
        return EpisodeBlock.of(**{k: v for k, v in vars(made).items() if k != "digests"} | changed).digests

    array = getattr(made, name)
    zero, minus, padded = (array.copy() for _ in range(3))
    zero[0, 0], minus[0, 0], padded[0, -1] = 0.0, -0.0, 7.0
    assert digest(**{name: zero}) != digest(**{name: minus})
    assert digest(**{name: padded}) == made.digests
    assert digest(log_densities=None) != made.digests


def test_arrays_that_are_views_have_the_same_digest():
    """A strided view and a copy of it hold the same content."""
    made = block([2])
    arrays = {name: getattr(made, name)[0] for name in ARRAYS}
    wide = np.repeat(made.actions[0], 2, axis=0)
    assert episode_digest(**arrays | {"actions": wide[::2]}) == episode_digest(**arrays)
