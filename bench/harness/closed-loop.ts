/** A closed loop: each of a number of callers starts its next operation when the last has ended, for a given time. */
import { nodeCpuUs, postgresCpuUs } from './cpu.ts'

export type Sample = {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly nodeUs: number
  readonly postgresUs: number | undefined
}

export type Loop = {
  readonly inFlight: number
  readonly forMs: number
  readonly warmUpMs: number
  readonly postmaster: number
  /** `slot` is the number of the caller, from 0. */
  readonly operation: (slot: number) => Promise<unknown>
}

export async function runLoop({ inFlight, forMs, warmUpMs, postmaster, operation }: Loop): Promise<Sample> {
  const times: number[] = []
  const startAt = performance.now() + warmUpMs
  const endAt = startAt + forMs
  let before: { readonly node: number; readonly postgres: number | undefined } | undefined
  await Promise.all(
    Array.from({ length: inFlight }, async (_, slot) => {
      for (;;) {
        const begin = performance.now()
        if (begin >= endAt) return
        if (begin >= startAt) before ??= { node: nodeCpuUs(), postgres: postgresCpuUs(postmaster) }
        await operation(slot)
        const end = performance.now()
        if (begin >= startAt && end <= endAt) times.push(end - begin)
      }
    }),
  )
  const node = nodeCpuUs() - (before?.node ?? 0)
  const after = postgresCpuUs(postmaster)
  const postgres = after === undefined || before?.postgres === undefined ? undefined : after - before.postgres
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN
  return {
    perSecond: (times.length * 1_000) / forMs,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    nodeUs: node / times.length,
    postgresUs: postgres === undefined ? undefined : postgres / times.length,
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}
