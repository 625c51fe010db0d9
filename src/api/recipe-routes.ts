/** Missions again. A fork runs a mission from one of its tasks on. Recipes: save a completed mission, list, get, edit, and compare the runs with their origin. */
import { idField, parsedField } from '#contract'
import { actingFor } from '#domains/commands'
import {
  createMission,
  editRecipe,
  editRecipeBody,
  forkMissionBody,
  listRecipes,
  type MissionDeps,
  missionView,
  planLines,
  readDrift,
  readRecipe,
  recipeDetailView,
  recipeDriftView,
  recipePageView,
  saveRecipe,
  saveRecipeBody,
  toMissionView,
  toRecipeDetailView,
  toRecipeView,
} from '#domains/missions'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { cutPage } from '#store'
import { resource, routes, shown } from './resource.ts'

const { list, get, post, patch } = resource<MissionDeps>('missions')

const NUMBER = /^[1-9]\d{0,8}$/
const parseNumber = (text: string): Decision<number> =>
  NUMBER.test(text) ? accept(Number(text)) : refuse('id_format', `${quote(text)} is not the id of a recipe.`)
const params = {
  recipe_id: parsedField(parseNumber).meta({ type: 'string', pattern: NUMBER.source, example: '12' }),
}

export const recipeRoutes = routes({
  forkMission: post('/missions/{mission_id}/fork', {
    summary: 'Run a mission again from one of its tasks; what the fork does not touch is carried over with its outputs',
    description: 'Effects of tasks that would run again and stand are refused, unless `refire` names the tasks.',
    role: 'writer',
    params: { mission_id: idField('mission') },
    body: [forkMissionBody, 'From which task, and what may be done again'],
    lines: planLines,
    answers: { 201: ['The new mission.', missionView] },
    problems: [400, 404, 409],
    handle: ({ deps, principal, workspaceId, traceId, requestId, params, body: { from, refire, plan, config } }) => {
      const fork = { mission_id: encodeId('mission', params.mission_id), from, refire }
      const asked = { workspaceId, requestId, fork, plan, config }
      return shown(createMission(deps, actingFor(principal, traceId), asked), ({ run }) => toMissionView(run))
    },
  }),
  saveRecipe: post('/missions/{mission_id}/save-recipe', {
    summary: 'Save the plan of a completed mission as a recipe',
    role: 'writer',
    params: { mission_id: idField('mission') },
    body: [saveRecipeBody, 'Its name'],
    answers: { 201: ['The recipe.', recipeDetailView] },
    problems: [400, 404, 409],
    handle: ({ deps, workspaceId, params: { mission_id }, body }) =>
      shown(saveRecipe(deps, workspaceId, mission_id, body), (recipe) =>
        toRecipeDetailView(recipe, deps.commands.catalog),
      ),
  }),
  listRecipes: list('/recipes', {
    summary: 'List the recipes of the workspace, newest first',
    role: 'reader',
    page: [recipePageView, 'A page of recipes.'],
    scope: ({ workspaceId }) => [workspaceId],
    async read({ deps, workspaceId }, from, limit) {
      const rows = await listRecipes(deps.commands.db, workspaceId, from?.[0] ?? null, limit + 1)
      return accept(cutPage(rows, limit, toRecipeView, ({ id }) => String(id)))
    },
  }),
  getRecipe: get('/recipes/{recipe_id}', {
    summary: 'Get a recipe with its plan and its steps',
    role: 'reader',
    params,
    answers: { 200: ['The recipe.', recipeDetailView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, params: { recipe_id } }) =>
      shown(readRecipe(deps.commands.db, workspaceId, recipe_id), (recipe) =>
        toRecipeDetailView(recipe, deps.commands.catalog),
      ),
  }),
  editRecipe: patch('/recipes/{recipe_id}', {
    summary: 'Change the name, the goal or the plan of a recipe, for example to add a {{variable}}',
    role: 'writer',
    params,
    body: [editRecipeBody, 'What changes'],
    lines: planLines,
    answers: { 200: ['The recipe.', recipeDetailView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, params: { recipe_id }, body }) =>
      shown(editRecipe(deps, workspaceId, recipe_id, body), (recipe) =>
        toRecipeDetailView(recipe, deps.commands.catalog),
      ),
  }),
  getRecipeDrift: get('/recipes/{recipe_id}/drift', {
    summary: 'Compare the runs of a recipe with the mission that it came from: cost, time, score, shape',
    role: 'reader',
    params,
    answers: { 200: ['The runs.', recipeDriftView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, params: { recipe_id } }) => readDrift(deps.commands.db, workspaceId, recipe_id),
  }),
})
