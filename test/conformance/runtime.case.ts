/**
 * What every runtime must do on any engine: `runtimeCases({ name, open, skip })` registers one test per promise. A case that an
 * engine cannot take is skipped with its reason, never left out.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { AddCase, CaseBench, OpenCase } from './runtime-bench.case.ts'
import { cancelCases } from './runtime-cancel.case.ts'
import { crashCases } from './runtime-crash.case.ts'
import { limitCases } from './runtime-limits.case.ts'
import { scheduleCases } from './runtime-schedules.case.ts'
import { stuckCases } from './runtime-stuck.case.ts'
import { turnCases } from './runtime-turns.case.ts'

export type RuntimeCases = {
  readonly name: string
  readonly open: OpenCase
  /** Title of a case → why this engine does not take it. */
  readonly skip?: Readonly<Record<string, string>>
  /** For a second configuration of an engine that has passed the whole suite: only the cases in which the two differ. */
  readonly some?: (title: string) => boolean
}

export function runtimeCases({ name, open, skip = {}, some = () => true }: RuntimeCases): void {
  const known = new Set<string>()
  describe(`${name}: the promises of a runtime`, () => {
    const add: AddCase = (title, run) => {
      if (!some(title)) return
      known.add(title)
      const reason = skip[title]
      test(title, reason === undefined ? {} : { skip: reason }, async (t) => {
        const opened: CaseBench[] = []
        t.after(() => Promise.all(opened.map((bench) => bench.close())))
        const openHere: OpenCase = async (setUp) => {
          const bench = await open(setUp)
          opened.push(bench)
          return bench
        }
        await run(openHere, t)
      })
    }
    for (const cases of [turnCases, crashCases, stuckCases, cancelCases, limitCases, scheduleCases]) cases(add)
    test('every skip names a case', () => {
      assert.deepEqual(
        Object.keys(skip).filter((title) => !known.has(title)),
        [],
      )
    })
  })
}
