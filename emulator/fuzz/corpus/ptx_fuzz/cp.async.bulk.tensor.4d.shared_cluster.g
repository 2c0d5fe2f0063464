// cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes swizzle 3, 64 columns
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry conform(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])
{
.reg .pred %p<20>; .reg .b16 %rs<40>; .reg .b32 %r<400>; .reg .b64 %rd<60>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
cvta.to.global.u64 %rd1, %rd1;
cvta.to.global.u64 %rd2, %rd2;
mov.u32 %r2, %tid.x;
mov.u32 %r3, %ctaid.x;
mov.u32 %r5, %ntid.x;
mad.lo.s32 %r1, %r3, %r5, %r2;
mov.u32 %r4, dynamic;
mul.wide.u32 %rd3, %r1, 0;
add.s64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd3, %r1, 32;
add.s64 %rd2, %rd2, %rd3;
setp.ne.s32 %p1, %r2, 0;
add.s32 %r5, %r4, 8192;
sub.s32 %r20, %r3, 2;
mul.lo.s32 %r20, %r20, 24;
sub.s32 %r21, 3, %r3;
mov.u32 %r22, 1;
and.b32 %r23, %r3, 1;
@%p1 bra wait;
mbarrier.init.shared::cta.b64 [%r5], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 2048;
mov.b64 %rd20, map;
cvta.param.u64 %rd20, %rd20;
cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd20, {%r20, %r21, %r22, %r23}], [%r5];
wait:
bar.sync 0;
again:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;
@%p2 bra on;
bra again;
on:
mov.u32 %r6, 0;
mul.lo.s32 %r7, %r2, 4;
add.s32 %r7, %r7, %r4;
mad.lo.s32 %r8, %r2, -28, 0;
cvt.s64.s32 %rd5, %r8;
add.s64 %rd5, %rd5, %rd2;
copy:
ld.shared.u32 %r10, [%r7];
st.global.u32 [%rd5], %r10;
add.s32 %r7, %r7, 256;
add.s64 %rd5, %rd5, 256;
add.s32 %r6, %r6, 256;
setp.lt.s32 %p3, %r6, 2048;
@%p3 bra copy;
ret;
}
