"""Where C code can be broken by a small change: lexically, without a compiler.

Comments, preprocessor lines and declarations are left alone. What does not compile, or compiles to the same, its user finds out."""
import bisect
import collections
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<blank>\s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<char>'(?:\\.|[^'\\])+')
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]* | \d[\w.]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><<= | >>= | \.\.\. | -> | \+\+ | -- | << | >> | <= | >= | == | != | && | \|\| | [-+*/%&|^]= | .)
""", re.S | re.M | re.X)

OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "+", "/": "*",
         "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "++": "--", "--": "++"}
CONDITIONS = {"<", "<=", ">", ">=", "==", "!=", "&&", "||"}
ALONE = {"++", "--"}  # these need no blanks around them
NO_STATEMENT = {"if", "for", "while", "switch", "do", "else", "case", "default", "return", "struct", "enum", "union", "static", "const", "unsigned"}
ID = re.compile(r'"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*[-_]?"')
ENUM = re.compile(r"\benum\b\s*\w*\s*\{([^}]*)\}")
MEMBER = re.compile(r"^[A-Z][A-Z0-9_]+$")


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int
    scope: str  # function, values (an initialiser), names (an enum), or nothing of these

    @property
    def end(self):
        return self.at + len(self.text)


@dataclass(frozen=True)
class Breakage:
    kind: str
    line: int
    at: int
    end: int
    text: str  # instead of what stands between the two

    def apply(self, source):
        return source[:self.at] + self.text + source[self.end:]


def tokens_of(source):
    """All but blanks, each with the scope that it stands in."""
    found, scopes = [], []
    for match in TOKEN.finditer(source):
        kind, text = match.lastgroup, match.group()
        if kind == "blank":
            continue
        if text == "}" and scopes:
            scopes.pop()
        found.append(Token(kind, text, match.start(), scopes[-1] if scopes else ""))
        if text == "{":
            scopes.append(scopes[-1] if scopes else opened(found))
    return found


def opened(tokens):
    """What a brace at file scope, the last token, opens."""
    if tokens[-2:-1] and tokens[-2].text in (")", "="):
        return "function" if tokens[-2].text == ")" else "values"
    return "names" if any(t.text == "enum" for t in tokens[-3:]) else "declarations"


def enums_of(sources):
    """For each member of an enum those that stand beside it."""
    beside = collections.defaultdict(list)
    for source in sources:
        for body in ENUM.findall(re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.S)):
            names = [name for part in body.split(",") if (name := part.split("=")[0].strip()) and MEMBER.match(name)]
            for one, next_one in zip(names, names[1:]):
                beside[one].append(next_one)
                beside[next_one].append(one)
    return beside


class Finder:
    """The breakages of one file."""

    def __init__(self, source, enums):
        self.source, self.enums = source, enums
        self.tokens = tokens_of(source)
        self.line_ends = [m.start() for m in re.finditer("\n", source)]
        self.found = []
        for i, token in enumerate(self.tokens):
            if token.scope in ("function", "values", "names"):
                self.value(i, token)
            if token.scope == "function":
                self.sign(token)
                self.statement(i, token)
                self.branch(i, token)

    def add(self, kind, at, end, text):
        # The lines behind it keep their numbers.
        text += "\n" * (self.source.count("\n", at, end) - text.count("\n"))
        self.found.append(Breakage(kind, bisect.bisect_left(self.line_ends, at) + 1, at, end, text))

    def value(self, i, t):
        before = self.tokens[i - 1].text if i else ""
        if t.scope == "names" and before != "=":
            return
        number = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", t.text) if t.kind == "number" else None
        if number:
            value = int(number[1], 0) if not re.fullmatch(r"0\d+", number[1]) else int(number[1], 8)
            for other in {value + 1, max(value - 1, 0)} - {value}:
                self.add("constant", t.at, t.end, (hex(other) if number[1][:2] in ("0x", "0X") else str(other)) + number[2])
        elif t.text in ("true", "false"):
            self.add("constant", t.at, t.end, "false" if t.text == "true" else "true")
        elif t.kind == "string" and ID.fullmatch(t.text):
            self.add("id", t.at, t.end, t.text[:-2] + ("x" if t.text[-2] != "x" else "y") + '"')
        elif t.kind == "name":
            for other in self.enums.get(t.text, ()):
                self.add("member", t.at, t.end, other)

    def sign(self, t):
        spaced = self.source[t.at - 1].isspace() and self.source[t.end:t.end + 1].isspace()
        if t.kind == "sign" and t.text in OTHER and (spaced or t.text in ALONE):
            self.add("condition" if t.text in CONDITIONS else "operator", t.at, t.end, OTHER[t.text])

    def match(self, i, ends):
        """The first token of @ends behind token @i that stands in no brackets of its own."""
        depth = 0
        for t in self.tokens[i:]:
            if not depth and t.text in ends:
                return t
            depth += (t.text in "([{" and t.kind == "sign") - (t.text in ")]}" and t.kind == "sign")
            if depth < 0:
                return None
        return None

    def statement(self, i, t):
        """A whole statement is left out: a call, an assignment, a break."""
        before, behind = self.tokens[i - 1], self.tokens[i + 1]
        if before.text not in (";", "{", "}", ")", "else", ":") or (t.text in NO_STATEMENT and (t.text, behind.text) != ("return", ";")):
            return
        if t.kind == "name" and behind.kind == "name" or not (t.kind == "name" or t.text in ("*", "++", "--")):
            return  # the first is a declaration
        end = self.match(i, ";")
        if end:
            self.add("left out", t.at, end.at, "")

    def branch(self, i, t):
        if t.text in ("if", "while") and self.tokens[i + 1].text == "(":
            end = self.match(i + 2, ")")
            if end:
                self.add("negated", self.tokens[i + 1].end, end.at, "!(" + self.source[self.tokens[i + 1].end:end.at] + ")")
        if t.text == "return" and self.tokens[i + 1].text not in (";", "0", "NULL", "true", "false"):
            end = self.match(i + 1, ";")
            if end:
                self.add("returned", t.at, end.at, "return 0")


def breakages_of(source, enums):
    """{line: {kind: [breakages]}}"""
    lines = collections.defaultdict(lambda: collections.defaultdict(list))
    for one in Finder(source, enums).found:
        lines[one.line][one.kind].append(one)
    return lines
