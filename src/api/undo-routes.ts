/** The undo of a command: preview and submit. Part of the routes of commands. */
import { idField } from '#contract'
import {
  actingFor,
  type CommandDeps,
  previewUndo,
  submittedView,
  toSubmittedView,
  undoBody,
  undoCommand,
  undoPreviewView,
} from '#domains/commands'
import type { ApiDeps } from './api-deps.ts'
import { type Call, Known, resource, shown } from './resource.ts'

type Api = Pick<ApiDeps, 'db'> & { readonly commands: CommandDeps }

const { get, post } = resource<Api>('commands')

const params = { command_id: idField('command') }

const asked = ({ workspaceId, params: { command_id: commandId }, requestId }: Call<Api, {}, typeof params>) => ({
  workspaceId,
  commandId,
  requestId,
})

export const undoRoutes = {
  previewUndo: get('/commands/{command_id}/undo', {
    summary: 'Preview the undo of a command: what would be undone and what not; nothing is recorded',
    role: 'writer',
    params,
    answers: { 200: ['The preview.', undoPreviewView] },
    problems: [400, 404],
    handle: (call) => previewUndo(call.deps.commands, actingFor(call.principal, call.traceId), asked(call)),
  }),
  undoCommand: post('/commands/{command_id}/undo', {
    summary: 'Submit the undo of a command that has ended; policy decides about it',
    role: 'writer',
    params,
    body: [undoBody, 'Submit the undo of a command that has ended; policy decides about it'],
    answers: {
      200: ['The undo that was submitted before.', submittedView],
      202: ['The new undo.', submittedView],
    },
    problems: [404, 409],
    handle: (call) =>
      shown(
        undoCommand(call.deps.commands, actingFor(call.principal, call.traceId), { ...asked(call), ...call.body }),
        ({ command, isNew }) => (isNew ? toSubmittedView(command) : new Known(toSubmittedView(command))),
      ),
  }),
}
