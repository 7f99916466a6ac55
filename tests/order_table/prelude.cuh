// What the kernels of the order table are written with: one function an instruction.
typedef unsigned u32;
typedef unsigned long long u64;
__device__ __forceinline__ u32 at(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
// cp.async
__device__ __forceinline__ void copy16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
// mbarrier
__device__ __forceinline__ void init(u64* bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ void arrive_relaxed(u64* bar) {
    asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ void arrive_expect(u64* bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void expect(u64* bar, u32 bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(u64* bar, u32 parity) {
    asm volatile("{ .reg .pred p; W%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W%=; }" ::"r"(at(bar)),
                 "r"(parity) : "memory");
}
__device__ __forceinline__ void wait_relaxed(u64* bar, u32 parity) {
    asm volatile("{ .reg .pred p; W%=: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%0], %1; @!p bra W%=; }" ::"r"(
                     at(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void arrive_drop(u64* bar) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive_drop.shared::cta.b64 s, [%0]; }" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ void arrive_copies(u64* bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ void inval(u64* bar) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ u32 elect() {
    u32 r; asm volatile("{ .reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.u32 %0, 1, 0, p; }" : "=r"(r)); return r; }
// bulk copies
__device__ __forceinline__ void bulk_load(void* to, const void* from, u32 bytes, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(to)),
                 "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, const void* from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(at(from)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_add(void* to, const void* from, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to), "r"(at(from)),
                 "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_multicast(void* to, const void* from, u32 bytes, u64* bar, unsigned short blocks) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
                 "%4;" ::"r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)), "h"(blocks) : "memory");
}
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void proxy_fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// tensor maps
struct alignas(128) Map { u64 words[16]; };
__device__ __forceinline__ void map_acquire(const void* map) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory"); }
__device__ __forceinline__ void map_release() { asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory"); }
__device__ __forceinline__ void tensor_load(void* to, const void* map, u32 column, u32 row, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(to)), "l"(map), "r"(column), "r"(row), "r"(at(bar)) : "memory"); }
// flags and atomics
#define LOAD_FORM(name, form)                                                                                  \
    __device__ __forceinline__ u32 name(const u32* p) {                                                        \
        u32 v; asm volatile("ld." form ".global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
#define STORE_FORM(name, form)                                                                                 \
    __device__ __forceinline__ void name(u32* p, u32 v) {                                                      \
        asm volatile("st." form ".global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
#define ADD_FORM(name, form)                                                                                   \
    __device__ __forceinline__ u32 name(u32* p, u32 v) {                                                       \
        u32 r; asm volatile("atom." form ".global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory"); return r; }
LOAD_FORM(load_relaxed, "relaxed.gpu") LOAD_FORM(load_acquire, "acquire.gpu") LOAD_FORM(load_relaxed_cta, "relaxed.cta")
LOAD_FORM(load_acquire_cta, "acquire.cta") LOAD_FORM(load_volatile, "volatile") STORE_FORM(store_volatile, "volatile")
STORE_FORM(store_relaxed, "relaxed.gpu") STORE_FORM(store_release, "release.gpu") STORE_FORM(store_relaxed_cta, "relaxed.cta")
STORE_FORM(store_release_cta, "release.cta")
ADD_FORM(add_relaxed, "relaxed.gpu") ADD_FORM(add_release, "release.gpu") ADD_FORM(add_acquire, "acquire.gpu")
ADD_FORM(add_acq_rel, "acq_rel.gpu") ADD_FORM(add_relaxed_cta, "relaxed.cta")
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_cta() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
__device__ __forceinline__ void fence_sc() { asm volatile("fence.sc.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_acquire() { asm volatile("fence.acquire.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_release() { asm volatile("fence.release.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_cluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }
__device__ __forceinline__ void red_relaxed(u32* p, u32 v) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ u32 load_nc(const u32* p) {
    u32 v; asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p)); return v; }
__device__ __forceinline__ u32 load_weak(const u32* p) {
    u32 v; asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ void store_weak(u32* p, u32 v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ u32 load_shared(const u32* p) {
    u32 v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at(p)) : "memory"); return v; }
__device__ __forceinline__ void store_shared(u32* p, u32 v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at(p)), "r"(v) : "memory"); }
// clusters
__device__ __forceinline__ u32 peer(const void* p, u32 rank) {
    u32 a; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(at(p)), "r"(rank)); return a; }
__device__ __forceinline__ u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void store_peer(u32 address, u32 v) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory"); }
__device__ __forceinline__ u32 load_peer(u32 address) {
    u32 v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory"); return v; }
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive_peer(u32 address) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory"); }
__device__ __forceinline__ void arrive_peer_release(u32 address) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory"); }
__device__ __forceinline__ void wait_cluster(u64* bar, u32 parity) {
    asm volatile("{ .reg .pred p; W%=: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @!p bra W%=; }" ::"r"(
                     at(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void store_async(u32 address, u32 v, u32 bar) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address), "r"(v), "r"(bar)
                 : "memory"); }
// wgmma: operands of 8 x 16 byte cores without swizzle; two cores along k lie together
__device__ __forceinline__ u64 tile(const void* p) { return u64(at(p) >> 4) | u64(8) << 16 | u64(16) << 32; }
// Keeps the compiler from giving the accumulators their first values behind the fence.
__device__ __forceinline__ void hold(float (&d)[4]) {
    asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory"); }
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma(float (&d)[4], u64 x, u64 y) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(x), "l"(y) : "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
