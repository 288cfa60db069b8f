"""Every claim of terse reproduce is failed by a mutant: the table of claims.txt, checked."""
import json
import os
import subprocess

import mutants
from bench import Tree, sha

PAPERS = ("signsgd", "def", "qadam", "regtopk", "dqsgd")


def measure(tree, paper):
    """{claim: holds} of a run with the command of the tree, or None if it does not run."""
    try:
        done = subprocess.run([os.path.join(tree.out, "terse"), "reproduce", paper, "--json",
                               "--seed", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=1800, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode not in (0, 4):
        return None
    (result,) = json.loads(done.stdout)["papers"]
    return {"%s/%s" % (paper, claim["id"]): claim["holds"] for claim in result["claims"]}


class Experiments:
    """Outcomes with and without a mutant, kept in the store."""

    def __init__(self, root, state, store):
        self.root, self.store = root, store
        self.tree = Tree(root, os.path.join(state, "copy-0"))
        self.tree.prepare()
        self.tree.ninja(["terse"])
        with open(os.path.join(self.tree.out, "terse"), "rb") as command:
            self.program = sha(command.read())[:20]

    def outcome(self, mutant, paper):
        text = mutants.read(self.root, mutant.path) if mutant else ""
        key = "claims %s %s %s" % (self.program, paper, mutant.digest(text) if mutant else "")
        known = self.store.get(key)
        if known is None:
            if mutant:
                self.tree.write(mutant.path, mutant.apply(text))
            built = self.tree.ninja(["terse"])
            known = {"claims": measure(self.tree, paper) if built else None}
            if mutant:
                self.tree.write(mutant.path, text)
            self.store.put(key, known)
            print("%s with %s: %s" % (paper, mutant.name if mutant else "no mutant", "does not run"
                                      if known["claims"] is None else " ".join(
                                          claim for claim, holds in known["claims"].items()
                                          if not holds) or "all hold"), flush=True)
        return known["claims"] or {}


def explore(experiments, named):
    for mutant in named:
        failed = []
        for paper in PAPERS:
            plain = experiments.outcome(None, paper)
            failed += [claim for claim, holds in experiments.outcome(mutant, paper).items()
                       if not holds and plain.get(claim)]
        print("%-28s %s" % (mutant.name, " ".join(failed) or "-"), flush=True)
    return 0


def errors_of(table, plain, outcome_of, names):
    """Texts about claims that nothing fails. `outcome_of(mutant name, paper)` is {claim: holds}."""
    errors = ["%s is not in claims.txt" % claim for claim in plain if claim not in table]
    errors += ["claims.txt: there is no claim %s" % claim for claim in table if claim not in plain]
    for claim, by in table.items():
        for name in by:
            if name not in names:
                errors.append("claims.txt: %s: there is no mutant %s" % (claim, name))
            elif claim in plain and outcome_of(name, claim.split("/")[0]).get(claim) is not False:
                errors.append("%s holds with the mutant %s" % (claim, name))
        if not by:
            errors.append("claims.txt: no mutant for %s" % claim)
        if plain.get(claim) is False:
            errors.append("%s fails without any mutant" % claim)
    return errors


def check(root, state, store, named, exploring):
    experiments = Experiments(root, state, store)
    if exploring:
        return explore(experiments, named)
    by_name = {mutant.name: mutant for mutant in named}
    plain = {}
    for paper in PAPERS:
        plain.update(experiments.outcome(None, paper))
    table = mutants.claim_table()
    errors = errors_of(table, plain, lambda name, paper: experiments.outcome(by_name[name], paper),
                       by_name)
    for claim, names in table.items():
        print("%-34s %s" % (claim, " ".join(names)))
    print("\n".join(errors))
    print("%d claims, %d errors" % (len(plain), len(errors)))
    return 1 if errors else 0
