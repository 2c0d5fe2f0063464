"""Bugs to plant in PTX: classes of them, the places of an entry where each fits, and the text with one planted."""
import re

WORD = r"[%\w$]+"


def without(line):
    return ""


def raised(pattern, by):
    """The number that the pattern's last group takes, made larger."""

    def change(line):
        found = re.search(pattern, line)
        return line[: found.start(found.lastindex)] + str(int(found[found.lastindex]) + by) + line[found.end(found.lastindex) :]

    return change


def moved(pattern, by):
    """The address in brackets, so many bytes on."""

    def change(line):
        found = re.search(pattern, line)
        address = found[1]
        base, _, offset = address.partition("+")
        return line[: found.start(1)] + f"{base}+{int(offset or 0) + by}" + line[found.end(1) :]

    return change


def renamed(old, new):
    return lambda line: line.replace(old, new, 1)


def passed(line):
    """A wait that is over at once."""
    predicate = re.search(rf"b64\s+({WORD}),", line)[1]
    return f"setp.eq.u32 {predicate}, 0, 0;"


def turned(line):
    """A wait for the other parity."""
    found = re.search(rf"\],\s*({WORD});", line)
    return f"{{ .reg .b32 other; xor.b32 other, {found[1]}, 1;\n" + line[: found.start(1)] + "other;}"


def other_descriptor(line):
    """B's descriptor, 32 bytes on."""
    found = re.search(rf"\}},\s*(?:{WORD}|\{{[^}}]*\}}),\s*({WORD}),", line)
    return f"{{ .reg .b64 on; add.s64 on, {found[1]}, 2;\n" + line[: found.start(1)] + "on" + line[found.end(1) :] + "}"


def swapped(line):
    """Two registers of a fragment of A change places."""
    lists = [m for m in re.finditer(r"\{([^}]*)\}", line)]
    found = lists[1]
    names = [name.strip() for name in found[1].split(",")]
    names[1], names[2] = names[2], names[1]
    return line[: found.start(1)] + ", ".join(names) + line[found.end(1) :]


def copied(line):
    """xor.b32 d, a, b becomes d = a."""
    found = re.search(rf"xor\.b32\s+({WORD}),\s*({WORD}),", line)
    return f"mov.b32 {found[1]}, {found[2]};"


# Class: what a line must look like, and what becomes of it.
CLASSES = {
    "barrier dropped": (r"^\s*(bar\.sync|barrier\.cta\.sync)\b", without),
    "arrival at a barrier dropped": (r"^\s*barrier\.cta\.arrive\b", without),
    "cp.async wait dropped": (r"^\s*cp\.async\.wait_group\b", without),
    "cp.async wait for one group fewer": (r"^\s*cp\.async\.wait_group\s+(\d+)", raised(r"wait_group\s+(\d+)", 1)),
    "cp.async commit dropped": (r"^\s*cp\.async\.commit_group\b", without),
    "cp.async to a wrong slot": (r"^\s*cp\.async\.c[ag]\.", moved(r"\[([^\]]+)\]", 1024)),
    "cp.async from a wrong place": (r"^\s*cp\.async\.c[ag]\.", moved(r"\], \[([^\]]+)\]", 16)),
    "mbarrier arrival dropped": (r"^\s*mbarrier\.arrive\.shared", without),
    "mbarrier wait dropped": (r"^\s*mbarrier\.try_wait", passed),
    "mbarrier parity": (r"^\s*mbarrier\.try_wait", turned),
    "mbarrier count": (rf"^\s*mbarrier\.init.*\], (\d+);", raised(r"\], (\d+);", 1)),
    "transaction bytes dropped": (r"^\s*mbarrier\.arrive\.expect_tx", lambda line: re.sub(r"\.expect_tx", "", line[: line.rfind(",")]) + ";"),
    "transaction bytes": (rf"^\s*mbarrier\.arrive\.expect_tx", lambda line: "{ .reg .b32 more; add.s32 more, " + line[line.rfind(",") + 1 : line.rfind(";")].strip() + ", 128;\n" + line[: line.rfind(",")] + ", more;}"),
    "TMA to a wrong slot": (r"^\s*cp\.async\.bulk", moved(r"bytes\s+\[([^\]]+)\]", 1024)),
    "TMA that tells a wrong mbarrier": (r"^\s*cp\.async\.bulk", moved(r"\],\s*\[([^\[\]]+)\];", 8)),
    "TMA dropped": (r"^\s*cp\.async\.bulk", without),
    "descriptor": (r"^\s*wgmma\.mma_async", other_descriptor),
    "wgmma commit dropped": (r"^\s*wgmma\.commit_group", without),
    "wgmma wait dropped": (r"^\s*wgmma\.wait_group", without),
    "wgmma wait for one group fewer": (r"^\s*wgmma\.wait_group", raised(r"aligned\s+(\d+)", 1)),
    "wgmma dropped": (r"^\s*wgmma\.mma_async", without),
    "swizzle dropped": (rf"^\s*xor\.b32\s+{WORD}, {WORD}, ", copied),
    "fragment registers swapped": (r"^\s*(mma\.sync|wgmma\.mma_async\S+ \{[^}]*\}, \{)", swapped),
    "ldmatrix not transposed": (r"^\s*ldmatrix.*\.trans\.", renamed(".trans", "")),
    "ldmatrix transposed": (r"^\s*ldmatrix\S*x4\.shared", renamed(".x4", ".x4.trans")),
    "ldmatrix from a wrong row": (r"^\s*ldmatrix", moved(r"\[([^\]]+)\]", 16)),
    "shared load from a wrong place": (r"^\s*ld\.shared\.\S+", moved(r"\[([^\]]+)\]", 16)),
    "shared store to a wrong place": (r"^\s*st\.shared\.\S+", moved(r"\[([^\]]+)\]", 16)),
    "global store to a wrong place": (r"^\s*st\.global\.\S+", moved(r"\[([^\]]+)\]", 16)),
    "bound one too high": (rf"^\s*setp\.lt\.s32\s+{WORD}, {WORD}, -?{WORD};", renamed(".lt.", ".le.")),
    "bound one too low": (rf"^\s*setp\.ge\.s32\s+{WORD}, {WORD}, -?{WORD};", renamed(".ge.", ".gt.")),
    "index off by one": (rf"^\s*add\.s32\s+{WORD}, {WORD}, (\d+);", raised(r", (\d+);", 1)),
    "shuffle from a wrong lane": (r"^\s*shfl\.sync\.bfly\.b32\s+[^,]+, [^,]+, 1,", renamed(", 1,", ", 4,")),
    "warp sync dropped": (r"^\s*bar\.warp\.sync", without),
    "fence dropped": (r"^\s*(fence\.|wgmma\.fence)", without),
    "wait for the grid before dropped": (r"^\s*griddepcontrol\.wait", without),
}


def sites(lines, first, last, name):
    """Lines of an entry where a class of bugs fits."""
    pattern = re.compile(CLASSES[name][0])
    return [i for i in range(first, last) if pattern.search(lines[i])]


def planted(lines, at, name):
    """The module with the bug in that line. As many lines as before, so that reports keep their numbers."""
    changed = CLASSES[name][1](lines[at]).replace("\n", " ")
    return lines[:at] + [changed] + lines[at + 1 :]


def trapped(lines, places, name):
    """The module with traps there, where the bug would change something: a report names the first that is reached."""
    out = list(lines)
    for at in places:
        trap = "trap;"
        if name.startswith("bound"):  # one more or less matters where both are equal
            operands = re.search(rf"{WORD}, ({WORD}), (-?{WORD});", out[at])
            trap = f"{{ .reg .pred here; setp.eq.s32 here, {operands[1]}, {operands[2]}; @here trap; }}"
        out[at] = trap + " " + out[at]
    return out


def extent(lines, entry):
    """The first and the last line of an entry's body."""
    first = next(i for i, line in enumerate(lines) if f".entry {entry}(" in line)
    first = next(i for i in range(first, len(lines)) if lines[i].startswith("{"))
    depth = 0
    for i in range(first, len(lines)):
        depth += lines[i].count("{") - lines[i].count("}")
        if depth == 0:
            return first, i
    raise ValueError(f"{entry} does not end")
