/** Agents and tools for tests of runs: transcripts that reach each end, and tools that succeed, fail, wait and are denied. */
import { z } from 'zod'
import { defineAgent } from '../../src/domains/agents/index.ts'
import type { Transcript } from '../../src/domains/agents/scripted-runtime.ts'
import {
  allow,
  ask,
  defineCommand,
  defineEffect,
  type Definition,
  deny,
  EffectFailure,
} from '../../src/domains/commands/index.ts'

type Given = Partial<Parameters<typeof defineAgent>[1]>

/** An agent that follows the transcript. */
export const scripted = (name: string, transcript: Transcript, more: Given = {}) =>
  defineAgent(name, {
    input: z.object({}),
    goal: 'Do the work.',
    role: 'worker',
    tools: ['look', 'pay', 'break_it', 'ask_owner', 'never'],
    runtime: { name: 'scripted', transcript: transcript as never },
    ...more,
  })

export const final = { final: { text: 'done' } }
export const look = (n: number) => ({ tool: 'look', payload: { n } })

/** Counts what reached the outside, by the note of the call. */
export type Outside = { readonly paid: string[]; looked: number }

export function toolsForRuns(outside: Outside): readonly Definition[] {
  const looking = defineEffect('work.peek', {
    input: z.object({ n: z.int() }),
    class: 'read',
    bounded: true,
    async do({ input: { n } }) {
      outside.looked += 1
      return { seen: n }
    },
  })
  const paying = defineEffect('work.transfer', {
    input: z.object({ note: z.string() }),
    class: 'keyed',
    async do({ input: { note } }) {
      outside.paid.push(note)
      return { paid: note }
    },
    undo: async ({ input: { note } }) => void outside.paid.splice(outside.paid.indexOf(note), 1),
  })
  const breaking = defineEffect('work.break', {
    input: z.object({}),
    class: 'read',
    async do(): Promise<Record<string, never>> {
      throw new EffectFailure('validation_error', 'It is broken.', 'no')
    },
  })
  const note = z.object({ note: z.string() })
  const commands = [
    defineCommand('look', { input: z.object({ n: z.int() }), policy: allow, steps: (input) => [looking(input)] }),
    defineCommand('pay', { input: note, policy: allow, steps: (input) => [paying(input)] }),
    defineCommand('break_it', { input: z.object({}), policy: allow, steps: () => [breaking({})] }),
    defineCommand('ask_owner', { input: note, policy: () => ask(1, 'owner'), steps: (input) => [paying(input)] }),
    defineCommand('never', { input: note, policy: () => deny('Not here.'), steps: (input) => [paying(input)] }),
  ]
  return [...new Set(commands.flatMap(({ definitions }) => definitions))]
}
