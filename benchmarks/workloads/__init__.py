"""The workloads, one file each."""

from benchmarks.workload import Workload
from benchmarks.workloads.w1_timer import W1
from benchmarks.workloads.w2_ring import W2
from benchmarks.workloads.w3_fanout import W3
from benchmarks.workloads.w4_memory import W4, W4A
from benchmarks.workloads.w5_resource import W5
from benchmarks.workloads.w6_iteration import W6
from benchmarks.workloads.w7_tick import W7
from benchmarks.workloads.w8_startup import W8
from benchmarks.workloads.w9_replay import W9
from benchmarks.workloads.w10_recall import W10
from benchmarks.workloads.w11_tool import W11
from benchmarks.workloads.w12_wealth import W12
from benchmarks.workloads.w13_schelling import W13
from benchmarks.workloads.w14_epidemic import W14
from benchmarks.workloads.w15_call import W15
from benchmarks.workloads.w16_http_call import W16

WORKLOADS: dict[str, Workload] = {
    w.key: w for w in (W1, W2, W3, W4, W4A, W5, W6, W7, W8, W9, W10, W11, W12, W13, W14, W15, W16)
}
