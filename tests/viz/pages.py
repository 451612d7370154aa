"""What a viewer reads of an HTML file and of the messages in it."""

import base64
from html.parser import HTMLParser

import numpy as np
import umsgpack


class Page(HTMLParser):
    """What a browser would fetch, run and decode of an HTML file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.messages: list[dict] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        kind = self.tags[-1][1].get("type") if self.tags else None
        if kind == "application/x-msgpack" and data.strip():
            self.messages.append(umsgpack.unpackb(base64.b64decode(data)))

    def objects(self, prefix=""):
        return [m for m in self.messages if m["type"] == "set_object" and m["path"].startswith(prefix)]


def vertices(message):
    packed = message["object"]["geometries"][0]["data"]["attributes"]["position"]["array"]
    return np.frombuffer(packed.data, dtype="<f4").reshape(-1, 3)


def moves(messages):
    """Path and property to (times [s], values) of everything that the animation moves."""
    (animation,) = [m for m in messages if m["type"] == "set_animation"]
    found = {}
    for entry in animation["animations"]:
        for track in entry["clip"]["tracks"]:
            times = np.array([key["time"] for key in track["keys"]]) / entry["clip"]["fps"]
            found[entry["path"], track["name"].removeprefix(".")] = times, [key["value"] for key in track["keys"]]
    return found


def at(track, time):
    """What a track that holds its values shows at a time."""
    times, values = track
    return np.asarray(values[np.searchsorted(times, time + 1e-9, side="right") - 1])


def held(messages):
    """Path and property of everything that keeps its value from key to key, in three.js's words."""
    (animation,) = [m for m in messages if m["type"] == "set_animation"]
    tracks = [(entry["path"], track) for entry in animation["animations"] for track in entry["clip"]["tracks"]]
    return {(path, track["name"].removeprefix(".")) for path, track in tracks if track.get("interpolation") == 2300}
