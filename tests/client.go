// Reads a running server with the client that openapi-generator made of its OpenAPI document.
//
//	go run ./client BASE_URL
//
// Each response must have the declared types. Prints one line, or what is wrong.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	openapi "island.test/metrics"
)

var calls = 0

// got returns the body of a call that must succeed.
func got[T any](body T, response *http.Response, err error) T {
	calls++
	if err != nil {
		fmt.Fprintf(os.Stderr, "client.go: call %d: %v: %v\n", calls, response, err)
		os.Exit(1)
	}
	return body
}

func main() {
	configuration := openapi.NewConfiguration()
	configuration.Servers = openapi.ServerConfigurations{{URL: os.Args[1]}}
	api, ctx := openapi.NewAPIClient(configuration), context.Background()
	want := func(holds bool, message string) {
		if !holds {
			fmt.Fprintln(os.Stderr, "client.go:", message)
			os.Exit(1)
		}
	}

	index := got(api.ServiceAPI.GetIndex(ctx).Execute())
	want(index.Version == "v1", "the version is "+index.Version)
	health := got(api.ServiceAPI.GetHealth(ctx).Execute())
	want(health.Status == "ok", "the status is "+health.Status)
	list := api.IslandsAPI.ListIslands(ctx).Sort(openapi.PLAYS).Order(openapi.ASC).CreatedIn(openapi.UEFN)
	islands := got(list.Limit(200).Execute()).Islands
	want(len(islands) > 0, "there are no islands")
	code := islands[0].Code
	island := got(api.IslandsAPI.GetIsland(ctx, code).Execute()).Island
	want(island.Code == code && len(island.Series) > 0, "the island is "+island.Code)
	history := got(api.IslandsAPI.GetIslandCcu(ctx, code).Execute()).Ccu
	want(len(history) > 0 && len(history[0]) == 2, "there is no history")
	want(history[0][0].String != nil && history[0][1].Int64 != nil, "a pair is not a day and a peak")
	creators := got(api.CreatorsAPI.ListCreators(ctx).Execute()).Creators
	want(len(creators) > 0, "there are no creators")
	creator := got(api.CreatorsAPI.GetCreator(ctx, creators[0].Slug).Execute()).Creator
	want(len(creator.Islands) == int(creator.IslandCount), "islands of the creator are missing")
	live := got(api.LiveAPI.GetLive(ctx).Execute())
	points := got(api.LiveAPI.GetIntraday(ctx).Execute()).Points
	want(len(points) > 0 && points[len(points)-1][0] == live.Time, "the curve does not end with the newest step")
	days := got(api.RankingsAPI.ListRankingDays(ctx).Execute()).Days
	ranking := got(api.RankingsAPI.GetRanking(ctx, days[0]).Execute())
	want(len(ranking.Ranking) == 10, "the ranking is not of ten")
	days = got(api.NewAPI.ListNewDays(ctx).Execute()).Days
	got(api.NewAPI.GetNewIslands(ctx, days[0]).Execute())
	files := got(api.DumpsAPI.GetDumpIndex(ctx).Execute()).Files
	want(len(files) > 0, "there are no dumps")
	_, response, err := api.IslandsAPI.GetIsland(ctx, "9999-9999-9999").Execute()
	want(err != nil && response.StatusCode == 404, "an unknown island is found")
	failure, isError := err.(*openapi.GenericOpenAPIError).Model().(openapi.Error)
	want(isError && failure.Error.Code == openapi.NOT_FOUND, "a 404 has no error code")
	fmt.Printf("client.go: %d calls\n", calls)
}
