// CUTLASS 3.x: a warp-specialised FP8 GEMM of sm_90, D = alpha * A * B^T + beta * C, with TMA and wgmma.
// SCHEDULE is the mainloop's schedule, EPILOGUE_SCHEDULE the epilogue's, TILE_M and CLUSTER_M the first extents.

// What the headers use of the standard library beyond what they define themselves for NVRTC.
namespace std {
template <class...>
using void_t = void;
template <class T>
inline constexpr bool is_pointer_v = false;
template <class T>
inline constexpr bool is_pointer_v<T*> = true;
}  // namespace std

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/numeric_types.h>

using Code = cutlass::float_e4m3_t;
using Output = cutlass::bfloat16_t;
using BlockTile = cute::Shape<cute::Int<TILE_M>, cute::_128, cute::_128>;
using Cluster = cute::Shape<cute::Int<CLUSTER_M>, cute::_1, cute::_1>;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, BlockTile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, float, Row, 4, Output, Row, 8,
    cutlass::epilogue::EPILOGUE_SCHEDULE>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Code, Row, 16, Code, Column, 16, float, BlockTile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::SCHEDULE>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;

// The boxes that the launch makes tensor maps of.
static_assert(cute::size<0>(typename Epilogue::EpilogueTile{}) == 64);
static_assert(cute::size<1>(typename Epilogue::EpilogueTile{}) == 32);

extern "C" __global__ __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor) void gemm(
    __grid_constant__ typename Kernel::Params const params) {
  extern __shared__ __align__(128) char memory[];
  Kernel kernel;
  kernel(params, memory);
}

struct Described {
  int params, shared, threads, a, b, c, d;  // bytes, bytes, threads; and where the tensor maps lie
};

// The kernel's parameters by CUTLASS's own code, built over zeros so that padding is defined too. For NVRTC it leaves
// the tensor maps empty.
extern "C" __global__ void describe(char* out, Described* described, int m, int n, int k, Code* a, Code* b, float* c,
                                    Output* d, float alpha, float beta) {
  typename Kernel::StrideA stride_a{};
  typename Kernel::StrideB stride_b{};
  typename Kernel::StrideC stride_c{};
  typename Kernel::StrideD stride_d{};
  cute::get<0>(stride_a) = cute::get<0>(stride_b) = k;
  cute::get<0>(stride_c) = cute::get<0>(stride_d) = n;
  typename Kernel::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                       {m, n, k, 1},
                                       {a, stride_a, b, stride_b},
                                       {{alpha, beta}, c, stride_c, d, stride_d}};
  arguments.hw_info.sm_count = 4;
  using Params = typename Kernel::Params;
  alignas(Params) char made[sizeof(Params)] = {};
  const Params& params = *new (made) Params(Kernel::to_underlying_arguments(arguments, nullptr));
  auto place = [&](const void* part) { return static_cast<int>(reinterpret_cast<const char*>(part) - made); };
  *described = {sizeof(params),
                Kernel::SharedStorageSize,
                Kernel::MaxThreadsPerBlock,
                place(params.mainloop.tma_load_a.get_tma_descriptor()),
                place(params.mainloop.tma_load_b.get_tma_descriptor()),
                place(params.epilogue.tma_load_c.get_tma_descriptor()),
                place(params.epilogue.tma_store_d.get_tma_descriptor())};
  for (int i = 0; i < sizeof(params); ++i) out[i] = made[i];
}
