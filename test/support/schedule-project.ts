/** A project for tests of schedules: a tick that is done at once, and one that a person must agree to. */
import { z } from 'zod'
import {
  defineCommandType,
  defineEffect,
  defineFunction,
  defineProject,
  defineSchedule,
  defineTask,
  type Definition,
  type ScheduleSpec,
} from '../../src/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'

const contract = {
  side_effects: ['tick.do'],
  error_classes: errorClasses,
  cancellable_by: ['requester', 'admin'],
  audit: ['command_created', 'policy_evaluated'],
} as const

export const tickDefinitions: readonly Definition[] = [
  defineEffect({ effect_type: 'tick.do', class: 'keyed', do: ({ payload }) => Promise.resolve({ ticked: payload }) }),
  defineFunction({ name: 'tick', plan: (payload) => [{ effect_type: 'tick.do', payload }] }),
  defineCommandType({
    ...contract,
    name: 'tick',
    description: 'Ticks.',
    payload: z.strictObject({ note: z.string().max(20).optional(), secret: z.string().optional() }),
    fields: { secret: 'secret' },
  }),
  defineCommandType({
    ...contract,
    name: 'asked_tick',
    description: 'Ticks when somebody has agreed.',
    payload: z.strictObject({ note: z.string() }),
    approval: { required: true, approver: 'role:boss' },
  }),
  defineCommandType({ ...contract, name: 'by_hand', description: 'Never by the clock.', payload: z.strictObject({}) }),
  ...(
    [
      ['Tick', 'tick', 'scheduled_trigger'],
      ['Asked Tick', 'asked_tick', 'scheduled_trigger'],
      ['By Hand', 'by_hand', 'user_request'],
    ] as const
  ).map(([name, command_type, ingress]) =>
    defineTask({
      name,
      description: `${name}.`,
      command_type,
      function_name: 'tick',
      ingress_types: [ingress],
      async_required: true,
      policy_checks: ['permission'],
    }),
  ),
]

export const everyMinute = {
  name: 'every minute',
  command_type: 'tick',
  cron: '* * * * *',
  queue: 'scheduled_maintenance',
} as const satisfies ScheduleSpec

export default defineProject({ catalog: [...tickDefinitions, defineSchedule({ ...everyMinute, misfire: 'all' })] })
