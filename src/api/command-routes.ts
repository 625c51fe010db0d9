/** Commands: submit, preview, read, supply input, cancel, retry, explain; their events and effects; and agents' proposals. */
import { z } from '@hono/zod-openapi'
import { idField, includeField, instantField, pageView, textField, traceField } from '#contract'
import { findStanding, findPending, listEdits, personIdsOf } from '#domains/approvals'
import {
  actingFor,
  actionView,
  actorsOf,
  addDependency,
  archivedView,
  cancelBody,
  cancelCommand,
  cancelledView,
  type CommandDeps,
  commandStatus,
  commandView,
  decideScope,
  dependencyBody,
  effectPosition,
  effectView,
  eventView,
  explainCommand,
  explanationView,
  readCommand,
  readUndoLinks,
  includable,
  ingressTypes,
  inputBody,
  listArchivesOf,
  listCommandEvents,
  listedCommandView,
  listEffectsOf,
  listEffects,
  listRunStandings,
  listUndos,
  mapTaskToPrimitives,
  mayReadCommand,
  previewCommand,
  previewCommandBody,
  previewView,
  proposeAction,
  proposeActionBody,
  refuseMissing,
  retryBody,
  retryCommand,
  scanCommands,
  type StoredCommand,
  submitCommand,
  submitCommandBody,
  submittedView,
  supplyInput,
  taskOf,
  taskTypeView,
  toActionView,
  toArchivedView,
  toCommandView,
  toEffectView,
  toEventView,
  toExplanationView,
  toListedView,
  toSubmittedView,
  toTaskTypeView,
} from '#domains/commands'
import { listNames } from '#domains/identity'
import { sayMissionOf } from '#domains/missions'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import type { ApiDeps } from './api-deps.ts'
import { type Call, Known, resource, routes, shown } from './resource.ts'
import { undoRoutes } from './undo-routes.ts'

type Api = Pick<ApiDeps, 'db'> & { readonly commands: CommandDeps }

const { list, get, post } = resource<Api>('commands')

const EVENTS_MAX = 1_000

const params = { command_id: idField('command') }
type OfCommand = Call<Api, {}, typeof params>

const acting = ({ principal, traceId }: Pick<Call<Api>, 'principal' | 'traceId'>) => actingFor(principal, traceId)
const named = ({ workspaceId, params: { command_id: commandId } }: Pick<OfCommand, 'workspaceId' | 'params'>) => ({
  workspaceId,
  commandId,
})
type Asking = Pick<OfCommand, 'deps' | 'principal' | 'workspaceId' | 'params'>
/** A command that the caller may not read is answered like one that does not exist. */
const find = async ({ deps, principal, workspaceId, params: asked }: Asking) => {
  const found = await readCommand(deps.db, workspaceId, asked.command_id)
  return found.ok && !mayReadCommand(principal, found.value.command) ? refuseMissing() : found
}

type Viewer = Pick<Call<Api>, 'deps' | 'principal'>
const namesOf = ({ deps, principal }: Viewer, commands: readonly StoredCommand[]) =>
  listNames(deps.db, principal.orgId, personIdsOf(commands.map(({ requested_by }) => requested_by)))
const viewer = async (call: Viewer & Pick<Call<Api>, 'workspaceId'>, commands: readonly StoredCommand[]) => {
  const { catalog, now } = call.deps.commands
  const [ids, { db }] = [commands.map(({ command_id }) => command_id), call.deps]
  const [names, at] = [await namesOf(call, commands), now()]
  const effectsOf = await listEffects(db, call.workspaceId, ids)
  const undoOf = await listUndos(db, call.workspaceId, ids)
  const standings = await listRunStandings({ db, catalog }, call.workspaceId, commands)
  return (command: StoredCommand) => {
    const { command_id: id } = command
    const facts = { at, names, undo: undoOf(id), standing: standings.get(id) }
    return toCommandView(catalog, { command, effects: effectsOf(id) }, facts)
  }
}
const show = async (call: Parameters<typeof viewer>[0], command: StoredCommand) =>
  (await viewer(call, [command]))(command)

export const commandRoutes = routes({
  listTaskTypes: get('/task-types', {
    summary: 'List the tasks that can be submitted, with their contracts',
    role: 'reader',
    agents: true,
    answers: { 200: ['The tasks.', z.object({ items: z.array(taskTypeView) }).meta({ id: 'TaskTypeList' })] },
    handle({ deps, principal: { agent } }) {
      const tasks = [...deps.commands.catalog.tasks.values()].filter((task) => decideScope(task, agent).ok)
      const items = tasks.map((task) => toTaskTypeView(task, mapTaskToPrimitives(task.spec)))
      return accept({ items: items.toSorted((a, b) => (a.task_name < b.task_name ? -1 : 1)) })
    },
  }),
  submitCommand: post('/commands', {
    summary: 'Submit a command; the answer comes as soon as it is recorded',
    role: 'writer',
    body: [submitCommandBody, 'The command'],
    answers: {
      200: ['The existing command with this idempotency key.', submittedView],
      202: ['The new command.', submittedView],
    },
    problems: [404, 409],
    async handle(call) {
      const { body } = call
      const submit = () =>
        submitCommand(call.deps.commands, acting(call), {
          workspaceId: call.workspaceId,
          taskName: body.task_name,
          payload: body.payload,
          idempotencyKey: body.idempotency_key,
          ingress: 'user_request',
          requestId: call.requestId,
          cancellationMode: body.cancellation_mode,
          dependsOn: body.depends_on?.map((parent) => ({
            commandId: parent.command_id,
            requiredStatus: parent.required_status,
            propagateCancellation: parent.propagate_cancellation,
          })),
          accessVersion: call.remembered?.accessVersion,
        })
      let submitted = await submit()
      if (submitted.ok && submitted.value.isNew) call.confirmed()
      else if (call.remembered) {
        // For a remembered caller only a new command counts; everything else is decided with the rights of now.
        const confirmed = await call.remembered.confirm()
        if (!confirmed.ok) return confirmed
        submitted = await submit()
      }
      if (!submitted.ok) return submitted
      const view = toSubmittedView(submitted.value.command)
      return accept(submitted.value.isNew ? view : new Known(view))
    },
  }),
  previewCommand: post('/commands/preview', {
    summary: 'Preview a command: policy, approvers and effects; nothing is recorded',
    role: 'writer',
    body: [previewCommandBody, 'The command'],
    answers: { 200: ['The preview.', previewView] },
    problems: [404],
    handle: (call) =>
      previewCommand(call.deps.commands, acting(call), {
        workspaceId: call.workspaceId,
        taskName: call.body.task_name,
        payload: call.body.payload,
        ingress: 'user_request',
        requestId: call.requestId,
      }),
  }),
  listCommands: list('/commands', {
    summary: 'List the commands of the workspace, newest first',
    role: 'reader',
    description:
      'With `ingress`, `trace_id` or `housekeeping=false` a page looks at the next 800 commands, or 60 of one status, task or requester. ' +
      'It may be short or empty while `next_cursor` continues the list; `created_after` and `created_before` narrow it.',
    query: {
      status: commandStatus.optional(),
      task_name: textField(200).optional(),
      requested_by: idField('user').optional(),
      created_after: instantField().optional().meta({ description: 'Only commands created at this time or later.' }),
      created_before: instantField().optional().meta({ description: 'Only commands created before this time.' }),
      ingress: z
        .enum(ingressTypes)
        .optional()
        .meta({ example: 'agent_action', description: 'Only commands that came this way.' }),
      trace_id: traceField().optional().meta({ description: 'Only commands of this trace.' }),
      housekeeping: z
        .enum(['true', 'false'])
        .optional()
        .meta({ example: 'false', description: '`false`: without the commands that Concord submits for itself.' }),
      include: includeField(includable),
    },
    page: [pageView(listedCommandView, 'CommandPage'), 'A page of commands.'],
    scope({ workspaceId, query }) {
      const { status, task_name, requested_by, created_after, created_before, ingress, trace_id, housekeeping } = query
      const times = [created_after?.toISOString(), created_before?.toISOString()]
      const filters = [status, task_name, requested_by, ...times, ingress, trace_id, housekeeping]
      return [workspaceId, ...filters.map((filter) => filter ?? null)]
    },
    async read(call, from, limit) {
      const { status, task_name: taskName, requested_by: userId, include = [] } = call.query
      const { created_after: createdAfter, created_before: createdBefore, ingress, trace_id: traceId } = call.query
      const withoutHousekeeping = call.query.housekeeping === 'false'
      const requestedBy = userId === undefined ? undefined : `user:${userId}`
      const page = { beforeId: from?.[0] ?? null, include, limit }
      const indexed = { status, taskName, requestedBy, createdAfter, createdBefore }
      const asked = { ...page, ...indexed, ingress, traceId, withoutHousekeeping }
      const { rows, scannedTo } = await scanCommands(call.deps.db, call.workspaceId, asked)
      const view = await viewer(call, rows)
      const listed = (command: StoredCommand) => toListedView(view(command), include)
      const { items, next } = cutPage(rows, limit, listed, ({ command_id }) => command_id)
      return accept({ items, next: next ?? (scannedTo === null ? undefined : [scannedTo]) })
    },
  }),
  getCommand: get('/commands/{command_id}', {
    summary: 'Get one command with its state, its result and the next possible steps',
    role: 'reader',
    agents: true,
    params,
    answers: { 200: ['The command.', commandView] },
    problems: [400, 404],
    handle: (call) => shown(find(call), ({ command }) => show(call, command)),
  }),
  supplyInput: post('/commands/{command_id}/input', {
    summary: 'Supply the missing input of a waiting command',
    role: 'writer',
    params,
    body: [inputBody, 'Supply the missing input of a waiting command'],
    answers: { 200: ['The updated command.', commandView] },
    problems: [404, 409],
    handle: (call) =>
      shown(supplyInput(call.deps.commands, acting(call), { ...call.body, ...named(call) }), (command) =>
        show(call, command),
      ),
  }),
  cancelCommand: post('/commands/{command_id}/cancel', {
    summary: 'Cancel a command; after the answer no new effect starts',
    role: 'writer',
    params,
    body: [cancelBody, 'Cancel a command; after the answer no new effect starts'],
    answers: { 200: ['The updated command.', cancelledView] },
    problems: [404, 409],
    handle(call) {
      const { reason, cancellation_mode: cancellationMode, force } = call.body
      const asked = { ...named(call), reason, cancellationMode, force }
      return shown(cancelCommand(call.deps.commands, acting(call), asked), async ({ command, changed }) => ({
        ...(await show(call, command)),
        changed,
      }))
    },
  }),
  retryCommand: post('/commands/{command_id}/retry', {
    summary: 'Retry a failed command; effects that succeeded are kept',
    role: 'writer',
    params,
    body: [retryBody, 'Retry a failed command; effects that succeeded are kept'],
    answers: { 200: ['The updated command.', commandView] },
    problems: [404, 409],
    handle: (call) =>
      shown(retryCommand(call.deps.commands, acting(call), { ...call.body, ...named(call) }), (command) =>
        show(call, command),
      ),
  }),
  ...undoRoutes,
  addDependency: post('/commands/{command_id}/dependencies', {
    summary: 'Make a command that has not started wait for another one',
    role: 'writer',
    params,
    body: [dependencyBody, 'The command to wait for'],
    answers: { 200: ['The updated command.', commandView] },
    problems: [404, 409],
    handle(call) {
      const { command_id: parentId, required_status, propagate_cancellation } = call.body
      const asked = {
        workspaceId: call.workspaceId,
        childId: call.params.command_id,
        parentId,
        requiredStatus: required_status,
        propagateCancellation: propagate_cancellation,
      }
      return shown(addDependency(call.deps.commands, acting(call), asked), (command) => show(call, command))
    },
  }),
  listCommandEvents: list('/commands/{command_id}/events', {
    summary: 'List the events of a command, oldest first',
    role: 'reader',
    agents: true,
    params,
    page: [
      pageView(eventView, 'DomainEventPage').extend({ archived: archivedView }).meta({
        id: 'CommandEventPage',
        description: 'One page, and the archive files with events that are no longer in the database.',
      }),
      'A page of events.',
    ],
    problems: [404],
    scope: ({ workspaceId, params: { command_id } }) => [workspaceId, command_id],
    async read(call, from, limit) {
      const { db } = call.deps
      const { workspaceId, commandId } = named(call)
      const found = await find(call)
      if (!found.ok) return found
      const asked = { afterSeq: from?.[0] ?? null, limit }
      const rows = await listCommandEvents(db, workspaceId, commandId, asked)
      // Listed after the page is read: events archived before the read are included.
      const archived = toArchivedView(await listArchivesOf(db, workspaceId, commandId))
      return accept({ ...cutPage(rows, limit, toEventView, ({ seq }) => seq), archived })
    },
  }),
  listCommandEffects: list('/commands/{command_id}/effects', {
    summary: 'List the effects of a command in the order of its plan',
    role: 'reader',
    agents: true,
    params,
    query: { include: includeField(['result']) },
    page: [pageView(effectView, 'EffectList'), 'Its effects.'],
    problems: [404],
    scope: ({ workspaceId, params: { command_id } }) => [workspaceId, command_id],
    async read(call, after = [], limit) {
      const { workspaceId, commandId } = named(call)
      const { include = [] } = call.query
      const found = await find(call)
      if (!found.ok) return found
      const rows = await listEffectsOf(call.deps.db, workspaceId, commandId, { after, limit, include })
      return accept(cutPage(rows, limit, (effect) => toEffectView(effect, include), effectPosition))
    },
  }),
  explainCommand: get('/commands/{command_id}/explanation', {
    summary: 'Explain the state of a command: who requested it, which rule decided, who approved, what was done',
    role: 'reader',
    agents: true,
    params,
    answers: { 200: ['The explanation.', explanationView] },
    problems: [400, 404],
    handle: (call) =>
      shown(find(call), async (found) => {
        const { db, commands } = call.deps
        const { workspaceId, commandId } = named(call)
        const first = { afterSeq: null, limit: EVENTS_MAX, withoutResults: true }
        const events = await listCommandEvents(db, workspaceId, commandId, first)
        const edits = await listEdits(db, { workspaceId, commandId })
        const task = taskOf(commands.catalog, found.command)
        const pending = await findPending(db, { workspaceId, commandId })
        const standings = [...(await findStanding(db, pending)).values()]
        const links = await readUndoLinks(db, found.command)
        const run = (await listRunStandings(commands, workspaceId, [found.command])).get(commandId)
        const names = await listNames(
          db,
          call.principal.orgId,
          actorsOf(found, [...events, ...(links.undo?.events ?? [])], edits),
        )
        const waits = await sayMissionOf(db, workspaceId, commandId)
        const facts = { names, edits, fields: task?.type.fields, isTaskGone: !task, standings, run, waits, ...links }
        const archives = await listArchivesOf(db, workspaceId, commandId)
        const isTruncated = [events, links.undo?.events ?? []].some((read) => read.at(-1)?.has_next ?? false)
        return toExplanationView(commandId, explainCommand(found, events, facts), archives, isTruncated)
      }),
  }),
  proposeAction: post('/agent-actions', {
    summary: 'Propose a tool call as an agent; the answer contains the decision',
    role: 'writer',
    agents: true,
    body: [proposeActionBody, 'The proposed call'],
    answers: {
      200: ['The decision about the existing proposal with this idempotency key.', actionView],
      202: ['The decision about the new proposal.', actionView],
    },
    problems: [403, 404, 409],
    handle(call) {
      const { principal, body } = call
      const proposed = proposeAction(
        call.deps.commands,
        { ...acting(call), principal },
        {
          workspaceId: call.workspaceId,
          toolName: body.tool_name,
          payload: body.payload,
          reason: body.reason,
          actionType: body.action_type,
          riskLevel: body.risk_level,
          idempotencyKey: body.idempotency_key,
          requestId: call.requestId,
          // Stops waiting when the caller has disconnected.
          signal: call.signal,
        },
      )
      return shown(proposed, (action) => (action.isNew ? toActionView(action) : new Known(toActionView(action))))
    },
  }),
})
