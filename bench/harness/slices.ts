/**
 * Runs cases in alternating short slices, so that other load on the machine affects all of them alike. Each call is measured
 * alone, by wall time and by the CPU time of this process; cleanup is not counted.
 */
export type SliceCase = {
  readonly name: string
  one(): unknown
  /** Receives the result of `one`. */
  after?(result: unknown): void
  close(): void
}

export type Measured = { readonly wallUs: number[]; readonly cpuUs: number[] }

/** All cases use the settings of the scheduler. */
export const SAME_SETTINGS =
  'pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -65536; pragma wal_autocheckpoint = 4000'
export const BARE_TABLE = 'create table bare (id text primary key not null, body text not null)'
export const BODY = JSON.stringify({ text: 'x'.repeat(180) })

const SLICE = 20

export function runSlices(cases: readonly SliceCase[], perCase: number): Map<string, Measured> {
  const measured = new Map<string, Measured>(cases.map(({ name }) => [name, { wallUs: [], cpuUs: [] }]))
  for (let slice = 0; slice < perCase / SLICE; slice++) {
    for (let place = 0; place < cases.length; place++) {
      // Each slice starts with another case, so that none always follows the same neighbour.
      const each = cases[(place + slice) % cases.length]
      if (each) measure(each, SLICE, measured.get(each.name))
    }
  }
  return measured
}

/** Warm-up: the first calls measure the compiler, and a growing write-ahead log costs more than one that is reused. */
export function warmUp({ one, after }: SliceCase, count: number): void {
  for (let call = 0; call < count; call++) {
    const result = one()
    after?.(result)
  }
}

function measure({ one, after }: SliceCase, count: number, into?: Measured): void {
  for (let call = 0; call < count; call++) {
    const cpu = process.cpuUsage()
    const start = performance.now()
    const result = one()
    const wall = performance.now() - start
    const { user, system } = process.cpuUsage(cpu)
    into?.wallUs.push(wall * 1_000)
    into?.cpuUs.push(user + system)
    after?.(result)
  }
}

export const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

export const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
