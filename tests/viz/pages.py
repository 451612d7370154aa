"""Scenes and messages that a viewer reads of an HTML file."""

import base64
import gzip
import json
from html.parser import HTMLParser

import numpy as np


class Page(HTMLParser):
    """Parts that a browser would fetch, run and decode of an HTML file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scene: dict = {}
        self.text = text
        self.feed(text)
        self.close()

    @property
    def messages(self) -> list[dict]:
        return self.scene["messages"]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        kind = self.tags[-1][1].get("type") if self.tags else None
        if kind == "application/gzip" and data.strip():
            self.scene = unpack(gzip.decompress(base64.b64decode(data)))

    def objects(self, prefix=""):
        return [m for m in self.messages if m["type"] == "set_object" and m["path"].startswith(prefix)]


def unpack(block: bytes) -> dict:
    """A scene as the page's JavaScript unpacks it."""
    length = int.from_bytes(block[:4], "little")
    scene, at = json.loads(block[4 : 4 + length]), 4 + length
    arrays = []
    for about in scene["arrays"]:
        n, vertices = about["count"], about["kind"] == "vertices"
        if vertices:
            words = np.frombuffer(block, np.uint8, 6 * n, at).reshape(3, 2, n).astype(np.int64)
            counted = np.cumsum(words[:, 0] + 256 * words[:, 1], axis=1) % 65536
            arrays.append(np.array(about["low"]) + about["step"] * counted.T)
        else:
            words = np.frombuffer(block, np.uint8, 12 * n, at).reshape(4, 3 * n).astype(np.int64)
            zigzag = 256 ** np.arange(4) @ words
            arrays.append(np.cumsum(np.where(zigzag % 2, -(zigzag + 1) // 2, zigzag // 2)).reshape(-1, 3))
        at += (6 if vertices else 12) * n
    assert at == len(block)
    for message in scene["messages"]:
        for shape in message.get("object", {}).get("geometries", []):
            for part in (shape["data"]["attributes"]["position"], shape["data"]["index"]):
                part["array"] = arrays[part["array"]["array"]]
    return scene


def vertices(message):
    return message["object"]["geometries"][0]["data"]["attributes"]["position"]["array"]


def triangles(message):
    return message["object"]["geometries"][0]["data"]["index"]["array"]


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
    """Value that a track, which holds its values, shows at a time."""
    times, values = track
    return np.asarray(values[np.searchsorted(times, time + 1e-9, side="right") - 1])


def held(messages):
    """Path and property of everything that keeps its value from key to key, in three.js's words."""
    (animation,) = [m for m in messages if m["type"] == "set_animation"]
    tracks = [(entry["path"], track) for entry in animation["animations"] for track in entry["clip"]["tracks"]]
    return {(path, track["name"].removeprefix(".")) for path, track in tracks if track.get("interpolation") == 2300}
