/** Runs cases in rounds of rotated order and prints medians. A ratio compares two cases of the same round. */
import { median, type Sample } from './closed-loop.ts'

export type Case = {
  readonly name: string
  /** The case of the same round that it is compared with; a reference has none. */
  readonly against?: string
  readonly run: () => Promise<Sample>
}

export type Result = { readonly name: string; readonly ratio: number | undefined; readonly samples: readonly Sample[] }

export async function compare(cases: readonly Case[], rounds: number): Promise<Result[]> {
  const samples = new Map<string, Sample[]>(cases.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    process.stderr.write(`round ${round + 1} of ${rounds}\n`)
    for (let place = 0; place < cases.length; place++) {
      // The first case after a pause and the last one on a busy disk change from round to round.
      const each = cases[(place + round * 3) % cases.length]
      if (each) samples.get(each.name)?.push(await each.run())
    }
  }
  return cases.map(({ name, against }) => {
    const own = samples.get(name) ?? []
    const others = against === undefined ? undefined : samples.get(against)
    const ratio =
      others && median(own.map(({ perSecond }, round) => perSecond / (others[round]?.perSecond ?? Number.NaN)))
    return { name, ratio, samples: own }
  })
}

export function printResults(results: readonly Result[]): void {
  const width = Math.max(...results.map(({ name }) => name.length))
  const line = (name: string, cells: readonly string[]) =>
    console.log([name.padEnd(width), ...cells.map((cell) => cell.padStart(10))].join('  '))
  line('', ['per s', 'ratio', 'p50 ms', 'p99 ms', 'node µs', 'pg µs'])
  for (const { name, ratio, samples } of results) {
    const of = (pick: (sample: Sample) => number | undefined, digits: number) => {
      const values = samples.map(pick).filter((value) => value !== undefined)
      return values.length === 0 ? '–' : median(values).toFixed(digits)
    }
    line(name, [
      of((sample) => sample.perSecond, 0),
      ratio === undefined ? '–' : ratio.toFixed(2),
      of((sample) => sample.p50Ms, 2),
      of((sample) => sample.p99Ms, 2),
      of((sample) => sample.nodeUs, 0),
      of((sample) => sample.postgresUs, 0),
    ])
  }
}
