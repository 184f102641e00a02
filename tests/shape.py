"""How plain is the code? Counts of what it says and of shapes that are hard to read; see CONTRIBUTING.md.

Run `python tests/shape.py ems notebooks tests` to see each file and where its hard shapes stand.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

WIDTH = 100  # columns
# Nodes that only mark how another one is used: load or store, the sign of an operation.
MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Module)
# Tokens that are layout or comment.
LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Shape:
    """The counts of one file, or of several added up."""

    nodes: int = 0  # syntax nodes: what the code says, however it is laid out
    tokens: int = 0  # of code, docstrings and comments left out
    lines: int = 0  # lines that hold such a token
    longest_function: int = 0  # in lines
    longest_file: int = 0
    nested: list[str] = field(default_factory=list)  # comprehensions with several `for`
    conditionals: list[str] = field(default_factory=list)  # conditional expressions inside another
    products: list[str] = field(default_factory=list)  # a value multiplied with a truth value
    wide: list[str] = field(default_factory=list)  # lines over WIDTH columns

    def add(self, other: Shape) -> None:
        self.nodes += other.nodes
        self.tokens += other.tokens
        self.lines += other.lines
        self.longest_function = max(self.longest_function, other.longest_function)
        self.longest_file = max(self.longest_file, other.longest_file)
        self.nested += other.nested
        self.conditionals += other.conditionals
        self.products += other.products
        self.wide += other.wide

    @property
    def tokens_a_line(self) -> float:
        return self.tokens / max(1, self.lines)


def shape_of(*paths: Path) -> Shape:
    """The shape of Python files, and of those in folders."""
    total = Shape()
    for path in paths:
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            total.add(shape_of_file(file))
    return total


def shape_of_file(path: Path) -> Shape:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    shape = Shape(longest_file=len(source.splitlines()))
    count_nodes(shape, tree, path.name)
    count_tokens(shape, path, docstring_lines(tree))
    for number, line in enumerate(source.splitlines(), 1):
        if len(line) > WIDTH:
            shape.wide.append(f"{path.name}:{number}")
    return shape


def count_nodes(shape: Shape, tree: ast.AST, name: str) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, MARKS):
            shape.nodes += 1
        if isinstance(node, FUNCTIONS):
            length = node.end_lineno - node.lineno + 1
            shape.longest_function = max(shape.longest_function, length)
        if isinstance(node, COMPREHENSIONS):
            if len(node.generators) > 1 or holds(node, COMPREHENSIONS):
                shape.nested.append(f"{name}:{node.lineno}")
        if isinstance(node, ast.IfExp) and holds(node, ast.IfExp):
            shape.conditionals.append(f"{name}:{node.lineno}")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            if is_truth_value(node.left) or is_truth_value(node.right):
                shape.products.append(f"{name}:{node.lineno}")


def holds(node: ast.AST, kinds: type | tuple[type, ...]) -> bool:
    """Whether a node of these kinds stands below this one."""
    return any(isinstance(below, kinds) for below in ast.walk(node) if below is not node)


def is_truth_value(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "bool"
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, (ast.Compare, ast.BoolOp))


def docstring_lines(tree: ast.AST) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(node):
            docstring = node.body[0]
            lines.update(range(docstring.lineno, docstring.end_lineno + 1))
    return lines


def count_tokens(shape: Shape, path: Path, documentation: set[int]) -> None:
    lines: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in LAYOUT and token.start[0] not in documentation:
                shape.tokens += 1
                lines.update(range(token.start[0], token.end[0] + 1))
    shape.lines = len(lines)


def names_of(tree: ast.Module) -> list[str]:
    """Classes, constants and functions that a module defines, without those that begin with _."""
    names = []
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                names += [part.id for part in parts if isinstance(part, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def main(folders: list[str]) -> None:
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            shape = shape_of_file(path)
            hard = shape.nested + shape.conditionals + shape.products + shape.wide
            print(f"  {path}: {shape.nodes} nodes, {shape.tokens_a_line:.1f} tokens a line", *hard)
        total = shape_of(Path(folder))
        print(
            f"{folder}: {total.nodes} nodes, {total.tokens_a_line:.1f} tokens a line, "
            f"{len(total.nested)} nested comprehensions, longest function {total.longest_function}, "
            f"longest file {total.longest_file}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
