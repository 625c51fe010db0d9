/** Submit, look at, answer, stop and repeat commands. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
import {
  actingFor,
  cancelBody,
  cancelCommand,
  cancelledView,
  commandStatus,
  commandView,
  type CommandDeps,
  readCommand,
  inputBody,
  listCommands,
  retryBody,
  retryCommand,
  type StoredCommand,
  submitCommand,
  submitCommandBody,
  submittedView,
  supplyInput,
  toCommandView,
} from '#domains/commands'
import { personIdsOf } from '#domains/approvals'
import { listNames } from '#domains/identity'
import { encodeId } from '#kernel/ids'
import type { ApiDeps } from './api-deps.ts'
import { openPageCursors } from './page-cursor.ts'
import { readPage } from './read-page.ts'
import { type ApiContext, principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'

const writes = headOf('commands', needs('writer'))
const reads = headOf('commands', needs('reader'))

export const commandParams = z.object({ command_id: idField('command') })

const postCommand = createRoute({
  ...writes(
    'post',
    '/commands',
    'submitCommand',
    'Ask for one governed thing; the answer comes as soon as it is on record',
  ),
  request: { query: queryOf({}), body: jsonBody(submitCommandBody, 'What is asked for') },
  responses: {
    200: jsonAnswer(submittedView, 'The command that this key had made before.'),
    202: jsonAnswer(submittedView, 'The new command.'),
    ...problems(404, 409, ...bodyProblems),
  },
})

const getCommands = createRoute({
  ...reads('get', '/commands', 'listCommands', 'The commands of the workspace, newest first'),
  request: {
    query: queryOf({ ...pageFields, status: commandStatus.optional(), task_name: z.string().max(200).optional() }),
  },
  responses: { 200: jsonAnswer(pageView(commandView, 'CommandPage'), 'A page of commands.'), ...problems(400, 422) },
})

const getCommand = createRoute({
  ...reads(
    'get',
    '/commands/{command_id}',
    'getCommand',
    'One command: where it stands, what came of it, and what can happen next',
  ),
  request: { query: queryOf({}), params: commandParams },
  responses: { 200: jsonAnswer(commandView, 'The command.'), ...problems(400, 404, 422) },
})

const action = <P extends string, B extends z.ZodType, A extends z.ZodType>(
  verb: P,
  operationId: string,
  summary: string,
  body: B,
  answer: A,
) =>
  createRoute({
    ...writes('post', `/commands/{command_id}/${verb}`, operationId, summary),
    request: { query: queryOf({}), params: commandParams, body: jsonBody(body, summary) },
    responses: { 200: jsonAnswer(answer, 'The command after it.'), ...problems(404, 409, ...bodyProblems) },
  })

const postInput = action('input', 'supplyInput', 'Give a waiting command what it lacks', inputBody, commandView)
const postCancel = action(
  'cancel',
  'cancelCommand',
  'Stop a command; after the answer no new effect starts',
  cancelBody,
  cancelledView,
)
const postRetry = action(
  'retry',
  'retryCommand',
  'Run a failed command again; what succeeded is kept',
  retryBody,
  commandView,
)

export function commandRoutes(deps: Pick<ApiDeps, 'db' | 'cursorKey'>, world: CommandDeps) {
  const cursors = openPageCursors(deps.cursorKey)
  const acting = (c: ApiContext) => actingFor(principalOf(c), c.get('ids').traceId)
  const named = (c: ApiContext, commandId: string) => ({ workspaceId: workspaceOf(c).id, commandId })
  const namesOf = (c: ApiContext, commands: readonly StoredCommand[]) =>
    listNames(deps.db, principalOf(c).orgId, personIdsOf(commands.map(({ requested_by }) => requested_by)))
  const showAll = async (c: ApiContext, commands: readonly StoredCommand[]) => {
    const names = await namesOf(c, commands)
    return commands.map((command) => toCommandView(world.catalog, { command, effects: [] }, names))
  }
  const show = async (c: ApiContext, command: StoredCommand) =>
    toCommandView(world.catalog, { command, effects: [] }, await namesOf(c, [command]))
  const find = (c: ApiContext, commandId: string) => readCommand(deps.db, workspaceOf(c).id, commandId)

  return newRouter()
    .openapi(postCommand, async (c) => {
      const body = c.req.valid('json')
      const submitted = await submitCommand(world, acting(c), {
        workspaceId: workspaceOf(c).id,
        taskName: body.task_name,
        payload: body.payload,
        idempotencyKey: body.idempotency_key,
        ingress: 'user_request',
        requestId: c.get('ids').requestId,
        cancellationMode: body.cancellation_mode,
        dependsOn: body.depends_on?.map((parent) => ({
          commandId: parent.command_id,
          requiredStatus: parent.required_status,
          propagateCancellation: parent.propagate_cancellation,
        })),
      })
      if (!submitted.ok) return refused(c, submitted)
      const { command, isNew } = submitted.value
      const view = {
        command_id: encodeId('command', command.command_id),
        state: command.status,
        status: command.status,
        trace_id: command.context.trace_id,
      }
      return isNew ? c.json(view, 202) : c.json(view, 200)
    })
    .openapi(getCommands, async (c) => {
      const query = c.req.valid('query')
      const workspaceId = workspaceOf(c).id
      const { status, task_name: taskName } = query
      const page = await readPage(cursors, query, {
        scope: ['listCommands', workspaceId, status ?? null, taskName ?? null],
        read: (beforeId, limit) => listCommands(deps.db, workspaceId, { status, taskName, beforeId, limit }),
        view: (row) => row,
        position: ({ command_id }) => command_id,
      })
      return page.ok ? c.json({ ...page.value, items: await showAll(c, page.value.items) }, 200) : refused(c, page)
    })
    .openapi(getCommand, async (c) => {
      const found = await find(c, c.req.valid('param').command_id)
      if (!found.ok) return refused(c, found)
      return c.json(toCommandView(world.catalog, found.value, await namesOf(c, [found.value.command])), 200)
    })
    .openapi(postInput, async (c) => {
      const asked = { ...c.req.valid('json'), ...named(c, c.req.valid('param').command_id) }
      const supplied = await supplyInput(world, acting(c), asked)
      return supplied.ok ? c.json(await show(c, supplied.value), 200) : refused(c, supplied)
    })
    .openapi(postCancel, async (c) => {
      const { reason, cancellation_mode, force } = c.req.valid('json')
      const asked = { ...named(c, c.req.valid('param').command_id), reason, cancellationMode: cancellation_mode, force }
      const cancelled = await cancelCommand(world, acting(c), asked)
      if (!cancelled.ok) return refused(c, cancelled)
      return c.json({ ...(await show(c, cancelled.value.command)), changed: cancelled.value.changed }, 200)
    })
    .openapi(postRetry, async (c) => {
      const asked = { ...c.req.valid('json'), ...named(c, c.req.valid('param').command_id) }
      const retried = await retryCommand(world, acting(c), asked)
      return retried.ok ? c.json(await show(c, retried.value), 200) : refused(c, retried)
    })
}
