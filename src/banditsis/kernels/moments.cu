// Sums over rows of cells on a GPU.
//
// Each block sums a piece of the rows for a few columns: cells in their own precision over short runs, and
// these in double precision. Pieces are then added in order, so results do not depend on the schedule.
// Cell (i, c) is X[r * row_stride + k * column_stride], where r is the i-th row and k the c-th column that was
// asked for. If rows are not LISTED they follow each other from the first. Rows have a weight w and a weight v
// of their squares, which may be null for 0 and 1; if sums are PLAIN, w is given, v is null, and no cell is missing.

#include <cuda_fp16.h>

typedef long long index;

const int RUN = 64;   // cells of a thread that are summed in their own precision
const int TALL = 4;   // rows of a block of `by_row`, each of 32 threads
const int WIDE = 2;   // columns of a block of `by_column`

// A cell, scaled and shifted; the difference of integers is exact.
template <typename A, typename T> __device__ A centre(T x, A scale, A shift) { return A(index(x) - index(shift)); }
template <typename A> __device__ A centre(double x, A scale, A shift) { return A(x) * scale - shift; }
template <typename A> __device__ A centre(float x, A scale, A shift) { return A(x) * scale - shift; }
template <typename A> __device__ A centre(__half x, A scale, A shift) { return A(__half2float(x)) * scale - shift; }

template <typename T, int V> struct alignas(sizeof(T) * V) Cells { T cell[V]; };

template <typename A, bool FOURTH, bool PLAIN> struct Sums {
  A sum = 0, product = 0, square = 0;
  double fourth = 0;
  __device__ void add(A z, A w, A v, bool skip) {
    if (!PLAIN && skip && z != z) z = 0;
    sum += z;
    product += z * w;
    square += PLAIN ? z * z : v * (z * z);
    if (FOURTH) fourth += double(z * z) * double(z * z);
  }
};

struct Totals {
  double line[4] = {0, 0, 0, 0};
  template <typename S> __device__ void add(const S &part) {
    line[0] += part.sum;
    line[1] += part.product;
    line[2] += part.square;
    line[3] += part.fourth;
  }
};

// For cells stored by row: V neighbouring columns in each thread.
template <typename T, typename A, int V, bool FOURTH, bool PLAIN, bool LISTED>
__global__ void by_row(const T *X, index row_stride, index column_stride, const index *listed, index first,
                       const index *columns, index p, const A *scale, const A *shift, const A *w, const A *v,
                       bool skip, const index *edges, index n_strips, double *out) {
  const int n_lines = FOURTH ? 4 : 3;
  index piece = blockIdx.x / n_strips, c = ((blockIdx.x % n_strips) * 32 + threadIdx.x) * V;
  Totals total[V];
  if (c < p) {
    index k = columns ? columns[c] : c, stop = edges[piece + 1];
    const T *start = X + k * column_stride;
    A a[V], b[V];
    for (int j = 0; j < V; j++) { a[j] = scale[k + j]; b[j] = shift[k + j]; }
    for (index i = edges[piece] + threadIdx.y; i < stop; i += TALL * RUN) {
      Sums<A, FOURTH, PLAIN> part[V];
      index end = min(stop, i + TALL * RUN);
#pragma unroll (32 / sizeof(A))
      for (index m = i; m < end; m += TALL) {
        index r = LISTED ? listed[m] : first + m;
        Cells<T, V> x = *(const Cells<T, V> *)(start + r * row_stride);
        A y = PLAIN || w ? w[m] : A(0), u = !PLAIN && v ? v[m] : A(1);
        for (int j = 0; j < V; j++) part[j].add(centre<A>(x.cell[j], a[j], b[j]), y, u, skip);
      }
      for (int j = 0; j < V; j++) total[j].add(part[j]);
    }
  }
  __shared__ double shared[TALL][32];
  for (int line = 0; line < n_lines; line++)
    for (int j = 0; j < V; j++) {
      shared[threadIdx.y][threadIdx.x] = total[j].line[line];
      __syncthreads();
      if (threadIdx.y == 0 && c < p) {
        double sum = 0;
        for (int y = 0; y < TALL; y++) sum += shared[y][threadIdx.x];
        out[(piece * n_lines + line) * p + c + j] = sum;
      }
      __syncthreads();
    }
}

// For cells stored by column: threads side by side along the rows, a few columns in each, which share weights.
template <typename T, typename A, bool FOURTH, bool PLAIN, bool LISTED>
__global__ void by_column(const T *X, index row_stride, index column_stride, const index *listed, index first,
                          const index *columns, index p, const A *scale, const A *shift, const A *w, const A *v,
                          bool skip, const index *edges, index n_groups, double *out) {
  const int n_lines = FOURTH ? 4 : 3;
  index piece = blockIdx.x / n_groups, c = (blockIdx.x % n_groups) * WIDE, stop = edges[piece + 1];
  Totals total[WIDE];
  const T *start[WIDE];
  A a[WIDE], b[WIDE];
  for (int j = 0; j < WIDE; j++) {
    index last = min(c + j, p - 1), k = columns ? columns[last] : last;  // the last column again where none is left
    start[j] = X + k * column_stride;
    a[j] = scale[k];
    b[j] = shift[k];
  }
  for (index i = edges[piece] + threadIdx.x; i < stop; i += (index)blockDim.x * RUN) {
    Sums<A, FOURTH, PLAIN> part[WIDE];
    index end = min(stop, i + (index)blockDim.x * RUN);
#pragma unroll 4
    for (index m = i; m < end; m += blockDim.x) {
      index r = (LISTED ? listed[m] : first + m) * row_stride;
      A y = PLAIN || w ? w[m] : A(0), u = !PLAIN && v ? v[m] : A(1);
      for (int j = 0; j < WIDE; j++) part[j].add(centre<A>(start[j][r], a[j], b[j]), y, u, skip);
    }
    for (int j = 0; j < WIDE; j++) total[j].add(part[j]);
  }
  __shared__ double shared[32];
  for (int line = 0; line < n_lines; line++)
    for (int j = 0; j < WIDE; j++) {
      double sum = total[j].line[line];
      for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
      if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
      __syncthreads();
      if (threadIdx.x == 0 && c + j < p) {
        sum = 0;
        for (int warp = 0; warp < blockDim.x / 32; warp++) sum += shared[warp];
        out[(piece * n_lines + line) * p + c + j] = sum;
      }
      __syncthreads();
    }
}

// Cells, scaled and shifted, for matrix products: missing ones are 0, and `present` (unless null) tells them.
// The copies are stored by row or by column, as the cells are.
template <typename T, typename A>
__global__ void copy(const T *X, index row_stride, index column_stride, const index *listed, index first,
                     const index *columns, index n, index p, const A *scale, const A *shift, bool along_rows,
                     A *z, A *present) {
  index step = (index)gridDim.x * blockDim.x;
  for (index j = blockIdx.x * (index)blockDim.x + threadIdx.x; j < n * p; j += step) {
    index i = along_rows ? j / p : j % n, c = along_rows ? j % p : j / n, k = columns ? columns[c] : c;
    A x = centre<A>(X[(listed ? listed[i] : first + i) * row_stride + k * column_stride], scale[k], shift[k]);
    bool here = x == x;
    z[j] = here || !present ? x : A(0);
    if (present) present[j] = here;
  }
}
