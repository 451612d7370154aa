"""Checks of a COLLADA file: its nodes may name one another, and the native parser follows without end."""

from __future__ import annotations

from ddp.errors import ModelError
from dynamics.robots.inspection import DEEPEST, parse

MOST = 100_000
"""Nodes, each counted as often as it is drawn; public meshes have some hundreds."""


def check(contents: bytes, where: str) -> None:
    """Raise ModelError for malformed XML, entities, nodes that contain themselves, and nodes without number."""
    inside, named = _nodes(contents, where)
    edges = [[*nodes, *(node for url in urls for node in named.get(url, []))] for nodes, urls in inside]
    size, depth = [0] * len(edges), [0] * len(edges)
    path: set[int] = set()
    ahead = [(node, False) for node in range(len(edges))]
    while ahead:
        node, finished = ahead.pop()
        if finished:
            path.remove(node)
            size[node] = 1 + sum(size[k] for k in edges[node])
            depth[node] = 1 + max((depth[k] for k in edges[node]), default=0)
            if depth[node] > DEEPEST or size[node] > MOST:
                raise ModelError(f"{where}: expected at most {MOST} nodes, {DEEPEST} one inside of another, got more")
        elif node in path:
            raise ModelError(f"{where}: a node contains itself")
        elif not size[node]:
            path.add(node)
            ahead.append((node, True))
            ahead += [(k, False) for k in edges[node]]


def _nodes(contents: bytes, where: str) -> tuple[list[tuple[list[int], list[str]]], dict[str, list[int]]]:
    """The nodes inside of each node, and the names that it draws; the nodes of each name."""
    inside: list[tuple[list[int], list[str]]] = []
    named: dict[str, list[int]] = {}
    ahead = [(parse(contents, where, len(contents)), -1)]
    while ahead:
        element, node = ahead.pop()
        tag = element.tag.rpartition(":")[2]
        if tag == "node":
            if node >= 0:
                inside[node][0].append(len(inside))
            node = len(inside)
            inside.append(([], []))
            for name in {element.get("id", ""), element.get("name", "")} - {""}:
                named.setdefault(name, []).append(node)
        elif tag == "instance_node" and node >= 0:
            inside[node][1].append(element.get("url", "").removeprefix("#"))
        ahead += [(child, node) for child in element]
    return inside, named
