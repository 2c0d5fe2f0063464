// wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 shared
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
mul.wide.u32 %rd4, %r3, 47120;
add.s64 %rd4, %rd1, %rd4;
mul.lo.s32 %r7, %r2, 16;
add.s32 %r8, %r7, %r4;
cvt.u64.u32 %rd5, %r7;
add.s64 %rd5, %rd5, %rd4;
mov.u32 %r6, 0;
copy:
ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5];
st.shared.v4.u32 [%r8], {%r10, %r11, %r12, %r13};
add.s64 %rd5, %rd5, 2048;
add.s32 %r8, %r8, 2048;
add.s32 %r6, %r6, 2048;
setp.lt.s32 %p1, %r6, 40960;
@%p1 bra copy;
fence.proxy.async.shared::cta;
bar.sync 0;
ld.global.u32 %r9, [%rd4+40960];
setp.ne.s32 %p2, %r9, 0;
mul.wide.u32 %rd5, %r2, 48;
add.s64 %rd4, %rd4, %rd5;
ld.global.u32 %r20, [%rd4+40976];
ld.global.u32 %r21, [%rd4+40980];
ld.global.u32 %r22, [%rd4+40984];
ld.global.u32 %r23, [%rd4+40988];
ld.global.u32 %r30, [%rd4+40992];
ld.global.u32 %r31, [%rd4+40996];
ld.global.u32 %r32, [%rd4+41000];
ld.global.u32 %r33, [%rd4+41004];
ld.global.u32 %r34, [%rd4+41008];
ld.global.u32 %r35, [%rd4+41012];
ld.global.u32 %r36, [%rd4+41016];
ld.global.u32 %r37, [%rd4+41020];
add.s32 %r6, %r4, 32;
shr.u32 %r6, %r6, 4;
cvt.u64.u32 %rd9, %r6;
or.b64 %rd6, %rd9, 4611686293305294848;
add.s32 %r6, %r4, 8256;
shr.u32 %r6, %r6, 4;
cvt.u64.u32 %rd9, %r6;
or.b64 %rd7, %rd9, 4611686293305294848;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37}, %rd6, %rd7, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
st.global.u32 [%rd2+0], %r30;
st.global.u32 [%rd2+4], %r31;
st.global.u32 [%rd2+8], %r32;
st.global.u32 [%rd2+12], %r33;
st.global.u32 [%rd2+16], %r34;
st.global.u32 [%rd2+20], %r35;
st.global.u32 [%rd2+24], %r36;
st.global.u32 [%rd2+28], %r37;
ret;
}
