#!/usr/bin/env python3
"""Every class of bugs fits a line of its kind and changes it."""
import unittest

import planted

LINES = """\
	bar.sync 	0;
barrier.cta.sync %r1, %r2;
barrier.cta.arrive %r1, %r2;
cp.async.wait_group 1;
cp.async.commit_group;
cp.async.cg.shared.global [%r897], [%rd246], 16, %r898;
mbarrier.arrive.shared::cta.b64 _, [%r1];
mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2;
mbarrier.init.shared::cta.b64 [%r1], 2;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;
cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3, %r4, %r5}], [%r6];
wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f1, %f2}, {%r1, %r2, %r3, %r4}, %rd1, add, 1, 1, 1;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
wgmma.fence.sync.aligned;
	xor.b32  	%r1, %r2, %r3;
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
	ld.shared.u32 	%r1, [%r2+-4];
	st.shared.u32 	[%r2+4], %r1;
	st.global.u32 	[%rd2], %r1;
	setp.lt.s32 	%p1, %r2, -3;
	setp.ge.s32 	%p1, %r2, %r3;
	add.s32 	%r1, %r2, 64;
	shfl.sync.bfly.b32 	%r1|%p1, %r2, 1, 31, -1;
	bar.warp.sync 	-1;
	griddepcontrol.wait;
""".splitlines()


class Planted(unittest.TestCase):
    def test_every_class_changes_its_lines(self):
        for name in planted.CLASSES:
            places = planted.sites(LINES, 0, len(LINES), name)
            self.assertTrue(places, name)
            for at in places:
                changed = planted.planted(LINES, at, name)
                self.assertEqual(len(changed), len(LINES), name)
                self.assertNotEqual(changed[at], LINES[at], name)
                self.assertEqual(changed[:at] + changed[at + 1 :], LINES[:at] + LINES[at + 1 :], name)

    def test_lines_become_what_is_meant(self):
        def change(name, line):
            return planted.planted([line], 0, name)[0]

        self.assertEqual(change("cp.async wait for one group fewer", "cp.async.wait_group 1;"), "cp.async.wait_group 2;")
        self.assertEqual(change("shared load from a wrong place", "ld.shared.u32 %r1, [%r2+-4];"), "ld.shared.u32 %r1, [%r2+12];")
        self.assertEqual(change("mbarrier wait dropped", "mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2;"), "setp.eq.u32 done, 0, 0;")
        self.assertEqual(change("bound one too low", "setp.ge.s32 %p1, %r2, %r3;"), "setp.gt.s32 %p1, %r2, %r3;")
        self.assertEqual(
            change("transaction bytes dropped", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;"),
            "mbarrier.arrive.shared::cta.b64 _, [%r1];",
        )

    def test_traps_stand_where_a_bound_matters(self):
        trapped = planted.trapped(["setp.lt.s32 %p1, %r2, -3;"], [0], "bound one too high")
        self.assertIn("setp.eq.s32 here, %r2, -3; @here trap;", trapped[0])
        self.assertEqual(planted.trapped(["ret;"], [0], "barrier dropped"), ["trap; ret;"])

    def test_an_entry_ends_where_its_braces_do(self):
        lines = [".visible .entry a(", ")", "{", "{", "}", "}", ".visible .entry b(", ")", "{", "}"]
        self.assertEqual(planted.extent(lines, "a"), (2, 5))
        self.assertEqual(planted.extent(lines, "b"), (8, 9))


if __name__ == "__main__":
    unittest.main()
