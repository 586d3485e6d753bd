"""Bundles over HTTP, from a server on this machine that does what servers do."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from bundles import DATA, ID, everything, members
from command import invoke

from smeoffline.data.bundle.install import install
from smeoffline.data.bundle.sources import Source
from smeoffline.errors import BundleError, DatasetError

PAGE = b"<!DOCTYPE html>\n<html><body>Please log in</body></html>"


class Server(ThreadingHTTPServer):
    """Serves one bundle, well or badly, by the path that is asked for; notes what was asked."""

    def __init__(self, bundle):
        super().__init__(("127.0.0.1", 0), Handler)
        half = bundle[: len(bundle) // 2]
        self.asked = []
        self.breaks = 1  # how often /flaky still breaks off
        # what a path is answered with: body, status, other headers
        self.answers = {
            "page": (PAGE, 200, {}),
            "empty": (b"", 200, {}),
            "cut": (half, 200, {"Content-Length": len(bundle)}),
            "short": (bundle, 200, {"Content-Length": len(bundle) - 1000}),
            "long": (bundle, 200, {"Content-Length": len(bundle) + 1000}),
            "nonsense": (bundle, 200, {"Content-Length": "many"}),
            "nolength": (bundle, 200, {"Content-Length": None}),
            "nolength-cut": (bundle[:-500], 200, {"Content-Length": None}),
            "wrong": (bundle[:-1] + bytes([bundle[-1] ^ 1]), 200, {}),
            "large": (bytes(2**26), 200, {"Content-Length": None}),
            "claims": (bytes(2**22), 200, {"Content-Length": 2**50}),
            "loop": (b"", 302, {"Location": "/loop"}),
            "moved": (b"", 301, {"Location": "/good.zip"}),
            "to-file": (b"", 302, {"Location": "file:///etc/passwd"}),
            "to-ftp": (b"", 302, {"Location": "ftp://127.0.0.1/x"}),
            "good.zip": (bundle, 200, {}),
        }

    def url(self, path):
        """The URL of a path."""
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def handle_error(self, request, client_address):
        """Say nothing where a client goes away: that is what some tests make it do."""


class Handler(BaseHTTPRequestHandler):
    """Answers `GET /path`: a number with that status, any unknown path with the bundle."""

    def do_GET(self):
        """Answer."""
        path, answers = self.path.lstrip("/").partition("?")[0], self.server.answers
        self.server.asked.append(self.path)
        if path == "flaky" and self.server.breaks:
            self.server.breaks -= 1
            path = "cut"
        body, status, headers = (b"no", int(path), {}) if path.isdigit() else answers.get(path, answers["good.zip"])
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            if value is not None:
                self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Keep the test's output clean."""


@pytest.fixture
def server(bundle, monkeypatch):
    """A server of its own for each test, without a proxy in between."""
    monkeypatch.setenv("NO_PROXY", "*")
    with Server(bundle) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["good.zip", "moved", "nolength", "any/where?token=secret#part"])
def test_a_bundle_is_installed_from_a_server(server, bundle, minari_root, path):
    """It is fetched, also where it has moved or the server tells no length, and byte for byte what was packed."""
    made = install([server.url(path)], sha256=hashlib.sha256(bundle).hexdigest())
    assert made.datasets == (ID,)
    assert "secret" not in made.source
    assert (minari_root / DATA).read_bytes() == members(bundle)[DATA]


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("404", "the server answers 404"),
        ("500", "the server answers 500"),
        ("403", "the server answers 403"),
        ("page", "got an HTML page"),
        ("empty", "got an empty file"),
        ("cut", "cut off"),
        ("short", "cut off"),
        ("long", "cut off"),
        ("nonsense", "not a URL|cut off|answer"),
        ("nolength-cut", "cut off"),
        ("loop", "redirects without end"),
        ("to-file", "neither http nor https"),
        ("to-ftp", "neither http nor https"),
        ("204", "empty file"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_what_a_server_does_wrong_is_told_and_nothing_is_kept(
    server, bundle, tmp_path, minari_root, path, match, known
):
    """With or without a hash, a failed or wrong transfer is one line that names the URL, and leaves no file."""
    sha256 = hashlib.sha256(bundle).hexdigest() if known else None
    shutil.rmtree(minari_root)
    with pytest.raises(BundleError, match=match if not known else f"{match}|checksum of the file") as told:
        install([server.url(path)], sha256=sha256)
    assert str(told.value).startswith(server.url(path))
    assert "\n" not in str(told.value)
    assert everything(tmp_path) == {}


def test_a_half_download_is_fetched_again(server, minari_root):
    """A transfer that breaks off is not taken for the whole by the next call [CORL#34]."""
    with pytest.raises(BundleError, match="cut off"):
        install([server.url("flaky")])
    assert everything(minari_root) == {}
    assert install([server.url("flaky")]).datasets == (ID,)
    assert len(server.asked) == 2


def test_a_wrong_file_is_refused_by_its_hash(server, bundle, minari_root):
    """A file of the right size and another byte is told by both hashes."""
    right = hashlib.sha256(bundle).hexdigest()
    with pytest.raises(BundleError, match=f"expected sha256 {right}, got (?!{right})[0-9a-f]{{64}}"):
        install([server.url("wrong")], sha256=right)
    assert everything(minari_root) == {}


def test_mirrors_are_tried_in_order_and_each_failure_is_named(server, bundle, tmp_path):
    """The first source that has the bundle is used, later ones are not asked, and what failed is told."""
    flipped = bytearray(bundle)
    flipped[bundle.index(members(bundle)[DATA])] ^= 1
    (tmp_path / "flipped.zip").write_bytes(flipped)
    places = [
        server.url("404"),
        server.url("page"),
        str(tmp_path / "flipped.zip"),
        server.url("good.zip"),
        server.url("500"),
    ]
    made = install(places)
    assert made.source == places[3]
    assert [failure.startswith(place) for failure, place in zip(made.failures, places, strict=False)] == [True] * 3
    assert server.asked == ["/404", "/page", "/good.zip"]
    with pytest.raises(BundleError) as told:
        install([server.url("404"), "http://127.0.0.1:9/x.zip", server.url("cut")])
    dead = "http://127.0.0.1:9/x.zip: no connection, or it broke off; check the address and the network"
    for place in ("/404: the server answers 404", dead, "/cut: "):
        assert place in str(told.value)


def test_mirrors_are_warned_about_on_the_command_line(server):
    """A failed mirror is a line on stderr, and the result is on stdout alone."""
    done = invoke("bundle", "install", server.url("404"), server.url("good.zip"), "--json")
    assert done.exit_code == 0
    assert done.stderr == f"warning: {server.url('404')}: the server answers 404\n"
    assert json.loads(done.stdout)["datasets"] == [ID]


def test_a_taken_id_is_no_reason_to_ask_a_mirror(server):
    """What would be the same with every source ends the installation."""
    install([server.url("good.zip")])
    with pytest.raises(DatasetError, match="--overwrite"):
        install([server.url("good.zip"), server.url("mirror")])
    assert "/mirror" not in server.asked


@pytest.mark.parametrize("path", ["large", "claims"])
def test_a_download_never_fills_the_disk(server, minari_root, monkeypatch, path):
    """However much a server claims or sends, some space is left, and a mirror isn't asked."""
    free = iter(range(2**28 + 2**23, 0, -(2**20)))  # what is left before each chunk
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, next(free)))
    with pytest.raises(DatasetError, match=r"disk full.*MB more"):
        install([server.url(path), server.url("mirror")])
    assert "/mirror" not in server.asked
    assert next(free) >= 2**28 - 2**20
    assert everything(minari_root) == {}


NO_URLS = (
    "file:///etc/passwd",
    "ftp://127.0.0.1/x.zip",
    "doi:10.1/x://y",
    "http://",
    "https:///x",
    "http://[/x",
    "http://a b/x",
    f"http://{'a' * 300}/x",
    "http://\ud800/",
)


@pytest.mark.parametrize("url", NO_URLS, ids=ascii)
def test_a_url_that_cannot_be_fetched_is_told(url, minari_root):
    """Only http and https are fetched; anything else, or what is no URL, is one line."""
    with pytest.raises(BundleError) as told:
        install([url])
    assert "\n" not in str(told.value)
    assert everything(minari_root) == {}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@lab.example/a.zip?key=secret#secret", "https://lab.example/a.zip"),
        ("https://secret@lab.example:8080/a.zip", "https://lab.example:8080/a.zip"),
        ("https://lab.example?secret", "https://lab.example"),
        ("https://me:se@cret@lab.example/a@b.zip", "https://lab.example/a@b.zip"),
        ("https://lab.example/\x1b[31m\n.zip", "https://lab.example/?[31m?.zip"),
    ],
)
def test_secrets_in_a_url_are_never_shown(url, shown):
    """User, password and query may be secrets, and a URL can't color a terminal."""
    assert Source(url, None).shown == shown


def test_secrets_are_in_no_message(server):
    """Not even in what the server's failure says."""
    url = server.url("404?key=secret").replace("http://", "http://me:secret@")
    with pytest.raises(BundleError) as told:
        install([url])
    assert "secret" not in str(told.value)
    assert "/404" in str(told.value)
